#include "cairn/registry_commands.h"

#include "cairn/verbs.h"

namespace cairn::cli {
namespace {

using Example = std::string_view;

constexpr Flag data_flag{"data", 0, "DIR", "The data directory (./cairn-data).", Completes::directory};
constexpr Flag key_data_flag{"data", 0, "DIR",
                             "The data directory, for its keys and its admin capability; without a URL its "
                             "registry is asked (./cairn-data).",
                             Completes::directory};
constexpr Argument proposal_argument[] = {{"ID", "The proposal."}};

// --- init
constexpr Flag init_flags[] = {
    data_flag,
    {"m", 0, "M", "How many signers must approve a change (1)."},
    {"signers", 0, "NAME[,NAME…]",
     "Who may approve (operator). A name is the signer's id and names its key."},
};
constexpr Example init_examples[] = {"cairn registry init --data /srv/cairn --m 2 --signers a,b,c"};

// --- reading
constexpr Flag head_flags[] = {
    {"wait", 0, "", "Wait for the next one."},
    {"after", 0, "VERSION",
     "With --wait: for one later than this, which was seen; exit 4 when it is not there."},
};
constexpr Example head_examples[] = {"cairn registry head -q", "cairn registry head --wait --after 17"};
constexpr Flag log_flags[] = {
    {"from", 0, "VERSION", "The first one to list; without it, the newest ones are listed."},
    {"limit", 0, "N", "At most so many (50)."},
    {"pending", 0, "", "Proposals that are not committed yet, instead."},
};
constexpr Example log_examples[] = {"cairn registry log --from 0 --limit 1000 --json | jq .commit_b3"};
constexpr Argument show_arguments[] = {
    {"VERSION|head|ID", "A version, the newest one, or a pending proposal."}};
constexpr Flag show_flags[] = {
    {"output", 'o', "FILE", "Write the payload's bytes (CBOR) there.", Completes::file},
};
constexpr Example show_examples[] = {"cairn registry show head", "cairn registry show 17 --json"};
constexpr Flag follow_flags[] = {
    {"from", 0, "VERSION", "Begin with this version instead of the present head."},
};
constexpr Example follow_examples[] = {"cairn registry follow --json"};
constexpr Flag audit_flags[] = {
    {"after", 0, "SEQUENCE",
     "Those behind this one, which was seen; without it, the newest ones are listed."},
    {"limit", 0, "N", "At most so many (50)."},
};
constexpr Example audit_examples[] = {"cairn registry audit",
                                      "cairn registry audit --after 0 --limit 65536 --json"};

// --- changing
constexpr Argument propose_arguments[] = {
    {"FILE",
     R"(The whole next set, every item of it, or - for stdin: `{"schema_version":"1.0.0","items":[ITEM, …]}`.)",
     Count::optional, Completes::file}};
constexpr Flag propose_flags[] = {
    {"add",
     0,
     "ITEM",
     "Add this item (a JSON file, or the JSON itself) to the head's, or replace the one it names.",
     Completes::file,
     {},
     true},
    {"remove", 0, "TYPE:ID", "Leave out this item of the head's.", Completes::nothing, {}, true},
    {"expiry", 0, "WHEN", "Not to be committed after this: a span (1h, 30d) or a time in RFC 3339."},
    {"supersede-of", 0, "VERSION", "Mark this version, the present head, as superseded; needs --reason."},
    {"reason", 0, "TEXT", "Why that version is superseded."},
    {"output", 'o', "FILE", "Write the payload's bytes (CBOR) there, for signers without a network.",
     Completes::file},
};
constexpr Example propose_examples[] = {
    "cairn registry propose next.json",
    R"(cairn registry propose --add '{"type":"region","id":"eu"}' --remove node:old)",
    R"(cairn registry propose --add '{"type":"name_authority","prefix":"docs","key":"'$(cairn key show -q docs-editor)'"}')",
    "cairn registry propose --add node.json -o payload.cbor"};
constexpr Argument approve_arguments[] = {{"ID", "The proposal; not with --offline.", Count::optional}};
constexpr Flag commit_flags[] = {
    {"key", 0, "NAME", "Sign it with keys/NAME.key of the data directory first."},
    {"signer", 0, "ID", "The signer's id, where it is not the key's name."},
};
constexpr Flag approve_flags[] = {
    {"key", 0, "NAME", "Whose key signs: keys/NAME.key of the data directory."},
    {"signer", 0, "ID", "The signer's id, where it is not the key's name."},
    key_data_flag,
    {"offline", 0, "PAYLOAD",
     "Sign this payload (its bytes, or the JSON answer of propose) and ask nobody; the approval is written, "
     "not sent.",
     Completes::file},
    {"output", 'o', "FILE", "With --offline: where the approval goes (stdout).", Completes::file},
    {"from", 0, "FILE", "Send this approval, which was made with --offline.", Completes::file},
};
constexpr Example approve_examples[] = {
    "cairn registry approve 01J… --key a --data /srv/cairn",
    "cairn registry approve --offline payload.cbor --key a --data /media/usb -o a.json",
    "cairn registry approve 01J… --from a.json"};

// --- verify
constexpr Flag verify_flags[] = {
    {"data", 0, "DIR",
     "The log in this data directory itself, unless a URL is given; it has the trust roots too.",
     Completes::directory},
    {"tiles", 0, "DIR", "A directory with `checkpoint` and `tile/`, wherever it came from.",
     Completes::directory},
    {"trust-roots", 0, "FILE", "What to believe (the data directory's registry/trust-roots.json).",
     Completes::file},
    {"since", 0, "FILE", "An earlier checkpoint: the log must have only grown since.", Completes::file},
    {"output", 'o', "FILE", "Keep the checkpoint there, for --since another time.", Completes::file},
};
constexpr Example verify_examples[] = {
    "cairn registry verify --url http://10.0.0.7:7430 --trust-roots roots.json",
    "cairn registry verify --data /srv/cairn",
    "cairn registry verify --tiles mirror --trust-roots roots.json"};

// --- keys
constexpr Argument key_argument[] = {{"NAME", "The key."}};
constexpr Flag key_flags[] = {data_flag};

}  // namespace

constinit const Command registry_commands[registry_command_count] = {
    {.name = "init",
     .summary = "Make the first version, its signers' keys and the trust roots.",
     .text = "Keys that are there already are used. Refused where there is a registry already.",
     .flags = init_flags,
     .examples = init_examples,
     .run = registry_init_verb},
    {.name = "head",
     .summary = "The newest version.",
     .flags = head_flags,
     .examples = head_examples,
     .run = registry_head_verb,
     .asks = Asks::registry},
    {.name = "log",
     .summary = "Versions, the oldest first.",
     .flags = log_flags,
     .examples = log_examples,
     .run = registry_log_verb,
     .asks = Asks::registry},
    {.name = "show",
     .summary = "What a version, or a proposal, says, and who approved it.",
     .arguments = show_arguments,
     .flags = show_flags,
     .examples = show_examples,
     .run = registry_show_verb,
     .asks = Asks::registry},
    {.name = "propose",
     .summary = "Propose the next version.",
     .text =
         "From a file with all of it, or from the present head with --add and --remove. The answer is "
         "checked "
         "to hold what was asked for. An ITEM is an object with a `type` and the fields of that type "
         "(docs/formats/registry.md); `cairn registry show head --json` has those of now in `payload.items`.",
     .arguments = propose_arguments,
     .flags = propose_flags,
     .examples = propose_examples,
     .run = registry_propose_verb,
     .asks = Asks::registry},
    {.name = "approve",
     .summary = "Sign a proposal.",
     .text =
         "Says what is signed before it signs, and signs only bytes that hash to what the proposal names.",
     .arguments = approve_arguments,
     .flags = approve_flags,
     .examples = approve_examples,
     .run = registry_approve_verb,
     .asks = Asks::registry},
    {.name = "commit",
     .summary = "Make an approved proposal the next version.",
     .text = "With --key, it is approved by the same request. Again, for a proposal that is committed: the "
             "same answer.",
     .arguments = proposal_argument,
     .flags = commit_flags,
     .run = registry_commit_verb,
     .asks = Asks::registry},
    {.name = "supersede",
     .summary = "Commit a proposal that supersedes the head.",
     .arguments = proposal_argument,
     .run = registry_supersede_verb,
     .asks = Asks::registry},
    {.name = "audit",
     .summary = "Who asked for which change, and what became of it.",
     .text =
         "The oldest first. Needs a capability for registry.admin. A token is named by its root key's id "
         "and a short hash of its identifier, which every token narrowed from it shares. What was refused "
         "before a capability was believed is counted: one line for each operation, reason and second.",
     .flags = audit_flags,
     .examples = audit_examples,
     .run = registry_audit_verb,
     .asks = Asks::registry},
    {.name = "verify",
     .summary = "Check everything again from the trust roots (exit 4 when something is wrong).",
     .text =
         "Over a server, over a data directory, or over bare tiles, which hold no payloads: then approvals "
         "are not checked, and it says so.",
     .flags = verify_flags,
     .examples = verify_examples,
     .run = registry_verify_verb,
     .asks = Asks::registry},
    {.name = "follow",
     .summary = "Print the head and every new one as it comes.",
     .flags = follow_flags,
     .examples = follow_examples,
     .run = registry_follow_verb,
     .asks = Asks::registry},
};

constexpr Argument tls_arguments[] = {
    {"NAME", "A host name (`*.example.com`) or an address that the server is reached by.", Count::some}};
constexpr Example tls_examples[] = {"cairn key tls localhost 127.0.0.1", "cairn key tls cairn.home.arpa"};

constinit const Command key_commands[key_command_count] = {
    {.name = "new",
     .summary = "Make an Ed25519 key: keys/NAME.key and keys/NAME.pub (PEM).",
     .arguments = key_argument,
     .flags = key_flags,
     .run = key_new_verb},
    {.name = "ls", .summary = "The keys of a data directory.", .flags = key_flags, .run = key_ls_verb},
    {.name = "show",
     .summary = "A public key and where it is. Never the private part.",
     .arguments = key_argument,
     .flags = key_flags,
     .run = key_show_verb},
    {.name = "tls",
     .summary = "Make a certificate for TLS: keys/tls/NAME.pem and NAME.key.",
     .text =
         "The first time it also makes the authority that vouches for it, keys/tls/ca.pem, for clients to "
         "trust. For trying out, and for a network of one's own.",
     .arguments = tls_arguments,
     .flags = key_flags,
     .examples = tls_examples,
     .run = key_tls_verb},
};

}  // namespace cairn::cli
