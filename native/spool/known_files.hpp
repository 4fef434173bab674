// What an earlier process of the recording has found out about a file: a key that is another once the file is another, or was changed.
#pragma once
#include "spool/spool.hpp"

#include <linux/stat.h>
#include <cstdint>
#include <string_view>

namespace aiflame::spool {

// `purpose`: what is remembered of it, and under which name it was found where that matters.
inline uint64_t key_of(const struct statx& file, std::string_view purpose) noexcept {
  Hash hash;
  hash.add(uint64_t{file.stx_dev_major} << 32 | file.stx_dev_minor);
  hash.add(file.stx_ino);
  hash.add(static_cast<uint64_t>(file.stx_ctime.tv_sec) << 30 ^ file.stx_ctime.tv_nsec);
  for (char letter : purpose) hash.add(static_cast<unsigned char>(letter));
  return hash.state | 1;
}

}  // namespace aiflame::spool
