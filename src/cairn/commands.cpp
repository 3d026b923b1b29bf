// Every verb, declared once.
#include "cairn/command.h"
#include "cairn/registry_commands.h"
#include "cairn/verbs.h"
#include "crypto/caveat.h"

namespace cairn::cli {
namespace {

using Example = std::string_view;

constexpr Argument addresses[] = {
    {"ADDR", "An address (b3:…) or the beginning of one, at least 6 digits.", Count::some}};
constexpr std::string_view object_text =
    "An address, the beginning of one, or a name (the longest that there is); /PATH is a file inside a "
    "directory.";
constexpr Argument objects[] = {{"ADDR|NAME[/PATH]", object_text, Count::some, Completes::name}};
constexpr Flag index_flag{"index", 0, "URL",
                          "The index that is asked for names. Else CAIRN_INDEX, the server where it is a "
                          "gateway, the data directory's index; without --data also port 7420."};
constexpr Flag note_flag{"note", 0, "TEXT", "A note, kept with the change."};
constexpr Flag if_match_flag{"if-match", 0, "N",
                             "Only if this is the name's sequence now; else the exit code is 9."};
constexpr Flag new_flag{"new", 0, "", "Only if the name leads nowhere now; else the exit code is 9."};

// --- put
constexpr Argument put_arguments[] = {
    {"PATH", "A file, a directory, or - for stdin.", Count::some, Completes::file}};
constexpr Flag put_flags[] = {
    {"type", 0, "TYPE", "The media type, instead of the one the file name suggests."},
    {"follow", 0, "", "Follow symbolic links; otherwise they are skipped and the exit code is 2."},
    {"title", 0, "TEXT", "The title of a directory. Part of its address."},
    {"created", 0, "", "The present time as a directory's time of creation. Part of its address."},
    {"previous", 0, "ADDR", "The directory that this one replaces. Part of its address."},
    {"name", 0, "NAME", "A name that leads there when all is stored; of one PATH.", Completes::name},
    note_flag,
    if_match_flag,
    new_flag,
    index_flag,
};
constexpr Example put_examples[] = {"cairn put README.md", "cairn put -q photo.jpg", "tar c . | cairn put -",
                                    "cairn put ./site", "cairn put ./site --name home/site"};

// --- get, cat, ls, stat
constexpr Argument get_arguments[] = {{"ADDR|NAME[/PATH]", object_text, Count::one, Completes::name}};
constexpr Flag get_flags[] = {
    {"output", 'o', "FILE", "Where to: a file, a directory for a directory, - for stdout.", Completes::file},
    {"raw", 0, "", "The bytes of a directory's manifest itself."},
    index_flag,
};
constexpr Example get_examples[] = {"cairn get b3:0123abcd… -o photo.jpg", "cairn get b3:89ef0123… -o site",
                                    "cairn get home/site"};
constexpr Flag cat_flags[] = {{"raw", 0, "", "The bytes of a directory's manifest itself."}, index_flag};
constexpr Example cat_examples[] = {"cairn cat b3:89ef01/index.html", "cairn cat home/site/index.html"};
constexpr Flag stat_flags[] = {index_flag};
constexpr Argument ls_arguments[] = {
    {"ADDR|NAME", "A directory; without one, every object of the store.", Count::any, Completes::name}};
constexpr Flag ls_flags[] = {{"prefix", 0, "ADDR", "Only objects whose address begins so."}, index_flag};
constexpr Example ls_examples[] = {"cairn ls", "cairn ls b3:89ef01", "cairn ls home/site",
                                   "cairn ls --json | jq .size"};

// --- names
constexpr Argument name_argument[] = {
    {"NAME", "A name: segments of a-z 0-9 . _ - between slashes.", Count::one, Completes::name}};
constexpr Argument name_set_arguments[] = {
    {"NAME", "A name: segments of a-z 0-9 . _ - between slashes.", Count::one, Completes::name},
    {"ADDR|PATH",
     "A whole address; or what is stored first: a file, a directory, - for stdin. Several paths "
     "become one directory.",
     Count::some, Completes::file}};
constexpr Argument name_ls_arguments[] = {
    {"PREFIX", "The beginning of the names; without it, all.", Count::optional, Completes::name}};
constexpr Flag name_set_flags[] = {
    note_flag,
    if_match_flag,
    new_flag,
    {"follow", 0, "", "Follow symbolic links; otherwise they are skipped, and no name is set."}};
constexpr Flag name_rm_flags[] = {if_match_flag};
constexpr Flag name_limit_flags[] = {{"limit", 0, "N", "How many at most (10000)."}};
constexpr Example name_set_examples[] = {"cairn name set home/site ./site --note 'spring'",
                                         "cairn name set home/site b3:89ef0123… --if-match 7"};
constexpr Example name_rm_examples[] = {"cairn name rm home/site --if-match 7"};
constexpr Command name_commands[] = {
    {.name = "set",
     .summary = "Let a name lead to an object; print it with its sequence.",
     .text = "Every change is kept and signed by the index. With -q prints the new sequence alone.",
     .arguments = name_set_arguments,
     .flags = name_set_flags,
     .examples = name_set_examples,
     .run = name_set_verb,
     .asks = Asks::index},
    {.name = "get",
     .summary = "Where a name of this index leads, and its sequence; with -q the address alone.",
     .arguments = name_argument,
     .run = name_get_verb,
     .asks = Asks::index},
    {.name = "ls",
     .summary = "The names of this index that lead somewhere.",
     .arguments = name_ls_arguments,
     .flags = name_limit_flags,
     .run = name_ls_verb,
     .asks = Asks::index},
    {.name = "history",
     .summary = "Every change of a name, the newest first, removals too.",
     .arguments = name_argument,
     .flags = name_limit_flags,
     .run = name_history_verb,
     .asks = Asks::index},
    {.name = "rm",
     .summary = "Let a name lead nowhere. Its history is kept, and its sequence goes on.",
     .arguments = name_argument,
     .flags = name_rm_flags,
     .examples = name_rm_examples,
     .run = name_rm_verb,
     .asks = Asks::index},
};
constexpr Argument key_arguments[] = {
    {"KEY", "A name, with or without `name:` before it, or an address.", Count::one, Completes::name}};
constexpr Flag resolve_flags[] = {{"fresh", 0, "", "What the index has learned before does not count."}};
constexpr Example resolve_examples[] = {"cairn resolve home/site", "cairn get $(cairn resolve -q home/site)"};
constexpr Argument provider_arguments[] = {{"ADDR", "A whole address."}};
constexpr Flag provider_flags[] = {{"region", 0, "REGION", "Those of this region first."},
                                   {"limit", 0, "N", "How many at most, 1 to 32 (5)."}};

// --- capabilities
constexpr Flag op_flag{.name = "op",
                       .value = "OP[,OP…]",
                       .text = "Only these operations, of",
                       .repeated = true,
                       .words = crypto::known_operations};
constexpr Flag mint_op_flag{.name = "op",
                            .value = "OP[,OP…]",
                            .text = "What it allows, of",
                            .repeated = true,
                            .required = true,
                            .words = crypto::known_operations};
constexpr Flag svc_flag{.name = "svc",
                        .value = "SERVICE[,…]",
                        .text = "Only of these services, of",
                        .repeated = true,
                        .words = crypto::known_services};
constexpr Flag tenant_flag{"tenant", 0, "TENANT", "Only for this tenant."};
constexpr Flag addr_flag{"addr", 0, "ADDR", "Only about this object."};
constexpr Flag name_flag{"name", 0, "PREFIX/", "Only names that begin so."};
constexpr Flag max_bytes_flag{"max-bytes", 0, "SIZE", "At most so many bytes a request (64KiB, 1048576)."};
constexpr Flag ip_flag{"ip", 0, "CIDR", "Only from this network."};
constexpr Flag expires_flag{"expires", 0, "WHEN", "Only until then: a span (1h, 30d) or a time in RFC 3339."};
constexpr Flag data_flag{"data", 0, "DIR", "The server's data directory (./cairn-data).",
                         Completes::directory};
constexpr Flag mint_flags[] = {data_flag, mint_op_flag,   svc_flag, tenant_flag, addr_flag,
                               name_flag, max_bytes_flag, ip_flag,  expires_flag};
constexpr Flag attenuate_flags[] = {op_flag,   svc_flag,       tenant_flag, addr_flag,
                                    name_flag, max_bytes_flag, ip_flag,     expires_flag};
constexpr Argument token_arguments[] = {{"TOKEN", "A capability, or - to read it from stdin."}};
constexpr Argument revoke_arguments[] = {
    {"KEYID|TOKEN", "The id of a root key, or a capability minted under it; - reads it from stdin."}};
constexpr Example mint_examples[] = {
    "cairn cap mint --op storage.put,storage.get --tenant home --expires 1h"};
constexpr Example attenuate_examples[] = {"cairn cap attenuate - --op storage.get --expires 10m < token"};
constexpr Command cap_commands[] = {
    {.name = "mint",
     .summary = "Make a capability and print it.",
     .text =
         "Reads the root key in the data directory; works while the service runs, which need not be asked.",
     .flags = mint_flags,
     .examples = mint_examples,
     .run = cap_mint_verb},
    {.name = "attenuate",
     .summary = "Narrow a capability and print the new one.",
     .text = "Offline: whoever holds a capability may hand on a narrower one. The old one stays good.",
     .arguments = token_arguments,
     .flags = attenuate_flags,
     .examples = attenuate_examples,
     .run = cap_attenuate_verb},
    {.name = "inspect",
     .summary = "Say what a capability allows. Asks nobody.",
     .arguments = token_arguments,
     .run = cap_inspect_verb},
    {.name = "revoke",
     .summary = "Void every capability under a root key.",
     .text = "In the data directory, or by a server with --url. It holds when the verb ends: a daemon of the "
             "data "
             "directory is told. Revoking the last good key makes a new one, and the directory's own "
             "keys/admin.cap is renewed with it.",
     .arguments = revoke_arguments,
     .run = cap_revoke_verb,
     .asks = Asks::storage},
};

// --- about
constexpr Argument service_argument[] = {{"SERVICE", "The service.", Count::one, Completes::service}};
constexpr Argument show_argument[] = {
    {"SERVICE", "The service alone; without it, all of `cairn up`.", Count::optional, Completes::service}};
constexpr Argument check_arguments[] = {
    {"SERVICE", "The service alone; without it, all of `cairn up`.", Count::optional, Completes::service},
    {"FILE", "Its configuration.", Count::one, Completes::file}};
constexpr Flag config_flag{"config", 0, "FILE", "The configuration (TOML).", Completes::file};
constexpr Flag set_flag{
    "set", 0,   "KEY=VALUE", "One key; stronger than the file and the environment.", Completes::nothing,
    {},    true};
constexpr Flag bind_flag{"bind", 0, "HOST:PORT", "Where to listen: server.bind."};
constexpr Flag show_flags[] = {config_flag, set_flag, bind_flag};
constexpr Flag set_flags[] = {set_flag};
constexpr Command config_commands[] = {
    {.name = "show",
     .summary = "The effective configuration, and where each value came from.",
     .arguments = show_argument,
     .flags = show_flags,
     .run = config_show_verb},
    {.name = "check",
     .summary = "Whether a configuration file would be accepted (78 when not).",
     .arguments = check_arguments,
     .flags = set_flags,
     .run = config_check_verb},
    {.name = "docs",
     .summary = "The page about every key of a service.",
     .arguments = service_argument,
     .run = config_docs_verb},
};
constexpr Flag topology_flags[] = {{"mermaid", 0, "", "As a drawing for Mermaid."}};
constexpr Flag doctor_flags[] = {
    {"accept-loss", 0, "", "Give up what the log has lost: remove its addresses, and tell of it no more."}};
constexpr Argument shell_arguments[] = {{"SHELL", "bash, zsh or fish."}};
constexpr Example completion_examples[] = {"source <(cairn completion bash)",
                                           "cairn completion fish > ~/.config/fish/completions/cairn.fish"};
constexpr Argument help_arguments[] = {{"VERB", "The verb to explain.", Count::any}};
constexpr Argument docs_arguments[] = {{"DIR", "Where the pages go.", Count::one, Completes::directory}};

// --- services
constexpr Flag port_base_flag{"port-base", 0, "N",
                              "Gateway at N, storage at N+10, index at N+20, registry at N+30 (7400)."};
constexpr Flag amnesia_flag{"amnesia", 0, "", "Keep everything in memory; write nothing to disk."};
constexpr Flag tls_flag{"tls", 0, "", "Speak TLS, with a certificate of the data directory's own authority."};
constexpr Flag up_flags[] = {data_flag, port_base_flag, tls_flag, amnesia_flag, config_flag, set_flag};
constexpr Flag serve_flags[] = {data_flag, bind_flag, config_flag, set_flag};
constexpr Example up_examples[] = {"cairn up", "cairn up --data /srv/cairn --port-base 8400"};
constexpr Flag registry_flags[] = {data_flag, bind_flag, config_flag, set_flag, amnesia_flag};
constexpr Example registry_examples[] = {"cairn registry init --data /srv/cairn --m 2 --signers a,b,c",
                                         "cairn registry --data /srv/cairn --bind 127.0.0.1:7430",
                                         "cairn registry head"};
constexpr Example gateway_examples[] = {
    "cairn gateway --bind 127.0.0.1:7400",
    "cairn gateway --set peers.storage=10.0.0.2:7410 --set peers.registry=10.0.0.2:7430"};
constexpr Example storage_examples[] = {"cairn storage --data /srv/cairn --bind 127.0.0.1:7410"};
constexpr Example index_examples[] = {"cairn index --data /srv/cairn --bind 127.0.0.1:7420"};

constexpr Command verbs[] = {
    {.name = "up",
     .summary = "Start every service in this process.",
     .text =
         "The first start makes the data directory, its keys and an admin capability; again changes nothing.",
     .flags = up_flags,
     .examples = up_examples,
     .run = up_verb},
    {.name = "storage",
     .summary = "Start the storage service alone.",
     .flags = serve_flags,
     .examples = storage_examples,
     .run = storage_verb},
    {.name = "index",
     .summary = "Start the index service alone: names, and what they stand for.",
     .flags = registry_flags,
     .examples = index_examples,
     .run = index_verb},
    {.name = "gateway",
     .summary = "Start the gateway alone: one origin before the services that `peers.*` names.",
     .text = "It forwards to storage at 127.0.0.1:7410, to the index at 127.0.0.1:7420 and to the registry "
             "at 127.0.0.1:7430, unless it is "
             "told otherwise. The data directory has what tenants have used of their quotas.",
     .flags = registry_flags,
     .examples = gateway_examples,
     .run = gateway_verb},
    {.name = "registry",
     .summary = "The registry: start it alone, or ask it (see the verbs below it).",
     .text = "Without a verb, serves the registry of the data directory. With one, speaks to a registry.",
     .flags = registry_flags,
     .examples = registry_examples,
     .commands = {registry_commands, registry_command_count},
     .run = registry_verb},
    {.name = "put",
     .summary = "Store files, directories or stdin; print their addresses.",
     .text =
         "A directory becomes a manifest: the same directory always has the same address. Large files go in "
         "parts, several at once; the same command after a break sends only what is missing.",
     .arguments = put_arguments,
     .flags = put_flags,
     .examples = put_examples,
     .run = put_verb,
     .asks = Asks::storage},
    {.name = "get",
     .summary = "Fetch an object or a directory, verified as it arrives.",
     .text = "Every 64 KiB are checked against the address before they are kept. An unfinished file is "
             "FILE.part; "
             "the same command goes on behind what is there and right.",
     .arguments = get_arguments,
     .flags = get_flags,
     .examples = get_examples,
     .run = get_verb,
     .asks = Asks::storage},
    {.name = "cat",
     .summary = "Write objects to stdout, verified.",
     .arguments = objects,
     .flags = cat_flags,
     .examples = cat_examples,
     .run = cat_verb,
     .asks = Asks::storage},
    {.name = "ls",
     .summary = "List objects, or what is in a directory.",
     .arguments = ls_arguments,
     .flags = ls_flags,
     .examples = ls_examples,
     .run = ls_verb,
     .asks = Asks::storage},
    {.name = "stat",
     .summary = "Say what an object is.",
     .arguments = objects,
     .flags = stat_flags,
     .run = stat_verb,
     .asks = Asks::storage},
    {.name = "rm",
     .summary = "Delete objects.",
     .arguments = addresses,
     .run = rm_verb,
     .asks = Asks::storage},
    {.name = "pin",
     .summary = "Keep objects from being deleted.",
     .arguments = addresses,
     .run = pin_verb,
     .asks = Asks::storage},
    {.name = "unpin",
     .summary = "Allow objects to be deleted again.",
     .arguments = addresses,
     .run = unpin_verb,
     .asks = Asks::storage},
    {.name = "name", .summary = "Names: what people call objects by.", .commands = name_commands},
    {.name = "resolve",
     .summary = "What a name or an address stands for, whichever index knows it.",
     .arguments = key_arguments,
     .flags = resolve_flags,
     .examples = resolve_examples,
     .run = resolve_verb,
     .asks = Asks::index},
    {.name = "providers",
     .summary = "Who has an object, the best first.",
     .arguments = provider_arguments,
     .flags = provider_flags,
     .run = providers_verb,
     .asks = Asks::index},
    {.name = "cap", .summary = "Capabilities: who may do what.", .commands = cap_commands},
    {.name = "key", .summary = "Keys that sign.", .commands = {key_commands, key_command_count}},
    {.name = "status",
     .summary = "How the server is.",
     .text = "Tells of each service of the data directory; with --url of that server alone.",
     .run = status_verb,
     .asks = Asks::every},
    {.name = "health",
     .summary = "Whether the server is ready (exit 0 or not).",
     .text = "Asks each service of the data directory; with --url that server alone.",
     .run = health_verb,
     .asks = Asks::every},
    {.name = "doctor",
     .summary = "What is wrong here, and what to do about it.",
     .flags = doctor_flags,
     .run = doctor_verb,
     .asks = Asks::storage},
    {.name = "config", .summary = "The configuration of a service.", .commands = config_commands},
    {.name = "topology",
     .summary = "The tasks, queues, locks and writers of a service.",
     .arguments = service_argument,
     .flags = topology_flags,
     .run = topology_verb},
    {.name = "completion",
     .summary = "Completions for a shell.",
     .arguments = shell_arguments,
     .examples = completion_examples,
     .run = completion_verb},
    {.name = "version", .summary = "What this program is.", .run = version_verb},
    {.name = "help", .summary = "Explain a verb.", .arguments = help_arguments, .run = help_verb},
    {.name = "docs",
     .summary = "Write the pages that are made from declarations.",
     .arguments = docs_arguments,
     .run = docs_verb,
     .hidden = true},
};

constexpr Command root{
    .name = "cairn",
    .summary =
        "cairn: self-hosted, content-addressed storage: put files in, get addresses that prove themselves.",
    .commands = verbs};

}  // namespace

const Command& command_tree() noexcept { return root; }

}  // namespace cairn::cli
