// Functions that the verbs about capabilities share.
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
// The word itself, or stdin for `-`: every user of the machine can see a token on a command line.
std::string read_word(const std::string& word);

// Prints the failure, and returns the exit code.
int complain_failure(const Invocation& invocation, const client::Failure& failure,
                     std::string_view hint = {});

}  // namespace cairn::cli
