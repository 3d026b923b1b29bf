// The verbs.
#pragma once

#include <string>

#include "cairn/command.h"

namespace cairn::cli {

// Objects.
int put_verb(const Invocation& invocation);
int get_verb(const Invocation& invocation);
int cat_verb(const Invocation& invocation);
int ls_verb(const Invocation& invocation);
int stat_verb(const Invocation& invocation);
int rm_verb(const Invocation& invocation);
int pin_verb(const Invocation& invocation);
int unpin_verb(const Invocation& invocation);
// Names.
int name_set_verb(const Invocation& invocation);
int name_get_verb(const Invocation& invocation);
int name_ls_verb(const Invocation& invocation);
int name_history_verb(const Invocation& invocation);
int name_rm_verb(const Invocation& invocation);
int resolve_verb(const Invocation& invocation);
int providers_verb(const Invocation& invocation);
// Capabilities.
int cap_mint_verb(const Invocation& invocation);
int cap_attenuate_verb(const Invocation& invocation);
int cap_inspect_verb(const Invocation& invocation);
int cap_revoke_verb(const Invocation& invocation);
// Keys that sign.
int key_new_verb(const Invocation& invocation);
int key_ls_verb(const Invocation& invocation);
int key_show_verb(const Invocation& invocation);
int key_tls_verb(const Invocation& invocation);
// The registry.
int registry_init_verb(const Invocation& invocation);
int registry_head_verb(const Invocation& invocation);
int registry_log_verb(const Invocation& invocation);
int registry_audit_verb(const Invocation& invocation);
int registry_show_verb(const Invocation& invocation);
int registry_propose_verb(const Invocation& invocation);
int registry_approve_verb(const Invocation& invocation);
int registry_commit_verb(const Invocation& invocation);
int registry_supersede_verb(const Invocation& invocation);
int registry_verify_verb(const Invocation& invocation);
int registry_follow_verb(const Invocation& invocation);
// State and health.
int status_verb(const Invocation& invocation);
int health_verb(const Invocation& invocation);
int doctor_verb(const Invocation& invocation);
// About the program.
int config_show_verb(const Invocation& invocation);
int config_check_verb(const Invocation& invocation);
int config_docs_verb(const Invocation& invocation);
int topology_verb(const Invocation& invocation);
int completion_verb(const Invocation& invocation);
int version_verb(const Invocation& invocation);
int help_verb(const Invocation& invocation);
int docs_verb(const Invocation& invocation);
// Services.
int up_verb(const Invocation& invocation);
int storage_verb(const Invocation& invocation);
int index_verb(const Invocation& invocation);
int gateway_verb(const Invocation& invocation);
int registry_verb(const Invocation& invocation);

// Reports a usage error, and returns the exit code.
int complain_usage(const Invocation& invocation, const std::string& what, const std::string& hint = {});

}  // namespace cairn::cli
