// What the verbs about capabilities share.
#pragma once

#include <string>
#include <string_view>

#include "cairn/command.h"
#include "client/failure.h"
#include "crypto/macaroon.h"

namespace cairn::cli {

std::string root_key_path(const Invocation& invocation);
std::string admin_token_path(const Invocation& invocation);

// A token of `key` that allows everything, different from every other.
crypto::Macaroon mint_plain(const crypto::RootKey& key);
crypto::RootKey new_root_key();
// The root key's id that a token names; empty for one that is not ours.
std::string key_of(const crypto::Macaroon& macaroon);
// The word itself; for `-` what stdin has: a token on a command line is seen by everybody on the machine.
std::string read_word(const std::string& word);

// Says what failed, and gives the exit code.
int complain_failure(const Invocation& invocation, const client::Failure& failure,
                     std::string_view hint = {});

}  // namespace cairn::cli
