// The quota file: what tenants have used of the present day's bytes, so that a restart does not forget it.
// docs/formats/quota.md has the bytes. It is replaced as a whole: a crash leaves the old one or the new one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"
#include "services/gateway/tenants.h"

namespace cairn::gateway {

struct QuotaRecord {
  std::int64_t day = 0;
  struct Use {
    std::string tenant;
    bool is_address = false;
    std::uint64_t bytes = 0;
    friend bool operator==(const Use&, const Use&) = default;
  };
  std::vector<Use> uses = {};  // by tenant
  friend bool operator==(const QuotaRecord&, const QuotaRecord&) = default;
};

std::string encode_quota(const QuotaRecord& record);
// Nothing: these are not the bytes of one, whole and undamaged.
std::optional<QuotaRecord> decode_quota(std::string_view text);

QuotaRecord record_quotas(Tenants& tenants, std::int64_t day);
void restore_quotas(Tenants& tenants, const QuotaRecord& record);

// `not_found` when there is none, `integrity` when it is not whole. Cancel: clean.
Task<Result<QuotaRecord>> read_quota_file(Call call, io::Disk* disk, std::string path);
// Makes the file's directory if it is missing. Cancel: partial — the old file or the new one is there.
Task<Result<>> replace_quota_file(Call call, io::Disk* disk, std::string path, std::string text);

}  // namespace cairn::gateway
