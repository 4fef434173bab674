#include "trace_reader/sqlite_table.hpp"
#include "trace_reader/decoding.hpp"
#include "trace_reader/numbers.hpp"

#include <unistd.h>

namespace aiflame::trace_reader {
namespace {

constexpr uint8_t kInterior = 0x05, kLeaf = 0x0d;
constexpr size_t kFileHeader = 100, kSmallestCell = 4, kPadding = 8;
constexpr int kMostDepth = 20;
constexpr uint32_t kMostPlaces = 2000;
constexpr uint64_t kMostRecord = 64 << 20;
constexpr uint32_t kUtf8 = 1;
constexpr int64_t kInfinite = 0x7ff0'0000'0000'0000;

uint64_t big_endian(const uint8_t* at, size_t size) noexcept {
  uint64_t value = 0;
  for (size_t byte = 0; byte < size; byte++) value = value << 8 | at[byte];
  return value;
}

// Bytes within a page or a record.
struct Bytes {
  const uint8_t *at, *end;

  size_t left() const noexcept { return static_cast<size_t>(end - at); }
  bool varint(uint64_t* value) noexcept {
    if (at != end && *at < 0x80) return *value = *at++, true;
    *value = 0;
    for (int byte = 0; byte < 9; byte++) {
      if (at == end) return false;
      uint8_t next = *at++;
      if (byte == 8) return *value = *value << 8 | next, true;
      *value = *value << 7 | (next & 0x7f);
      if (!(next & 0x80)) return true;
    }
    return false;
  }
};

// A value in a record: its type, and its place behind the record's header.
struct Cell {
  uint64_t type;
  size_t place, size;
};

class Table {
 public:
  Table(int file, WantedColumn* wanted, uint32_t count, int64_t rows, Texts* texts) noexcept
      : file_(file), wanted_(wanted), count_(count), rows_(rows), texts_(texts) {}

  bool read(uint32_t root) noexcept {
    uint8_t header[kFileHeader];
    off_t size = lseek(file_, 0, SEEK_END);
    if (size < 0 || pread(file_, header, sizeof header, 0) != sizeof header) return false;
    page_size_ = big_endian(header + 16, 2);
    if (page_size_ == 1) page_size_ = 65536;
    if (page_size_ < 512 || page_size_ & (page_size_ - 1) || header[20] > page_size_ - 480) return false;
    usable_ = page_size_ - header[20];
    pages_left_ = static_cast<uint64_t>(size) / page_size_;
    for (uint32_t at = 0; at < count_; at++) {
      if (wanted_[at].place >= static_cast<int32_t>(kMostPlaces)) return false;
      if (wanted_[at].values == Values::TEXT && big_endian(header + 56, 4) != kUtf8) return false;
      if (wanted_[at].place >= 0 && static_cast<uint32_t>(wanted_[at].place) >= places_) places_ = static_cast<uint32_t>(wanted_[at].place) + 1;
    }
    if (!first_.resize(places_) || !next_.resize(count_) || !cells_.resize(count_)) return false;
    for (uint32_t place = 0; place < places_; place++) first_[place] = UINT32_MAX;
    for (uint32_t at = 0; at < count_; at++)
      if (int32_t place = wanted_[at].place; place >= 0) next_[at] = first_[place], first_[place] = at;
    return walk(root, 0) && row_ == rows_;
  }

 private:
  // Every page is read once at most: a tree whose pages are used twice is longer than its file.
  bool load(uint32_t page, Array<uint8_t>* to) noexcept {
    if (page == 0 || pages_left_ == 0 || !to->resize(page_size_ + kPadding)) return false;
    pages_left_--;
    ssize_t size = pread(file_, to->data(), page_size_, static_cast<off_t>((page - 1) * page_size_));
    memset(to->data() + page_size_, 0, kPadding);
    return size == static_cast<ssize_t>(page_size_);
  }

  bool walk(uint32_t page, int depth) noexcept {
    Array<uint8_t> own;
    if (depth == kMostDepth || !load(page, &own)) return false;
    const uint8_t* begin = own.data() + (page == 1 ? kFileHeader : 0);
    uint8_t kind = begin[0];
    size_t cells = big_endian(begin + 3, 2), header = kind == kLeaf ? 8 : 12;
    const uint8_t* places = begin + header;
    if ((kind != kLeaf && kind != kInterior) || cells * (2 + kSmallestCell) > usable_) return false;
    for (size_t cell = 0; cell < cells; cell++) {
      size_t place = big_endian(places + 2 * cell, 2);
      if (place < header || place + kSmallestCell > usable_) return false;
      Bytes bytes{own.data() + place, own.data() + usable_};
      if (kind == kLeaf ? !leaf_cell(bytes) : !walk(static_cast<uint32_t>(big_endian(bytes.at, 4)), depth + 1)) return false;
    }
    return kind == kLeaf || walk(static_cast<uint32_t>(big_endian(begin + 8, 4)), depth + 1);
  }

  bool leaf_cell(Bytes bytes) noexcept {
    uint64_t size, number;
    if (!bytes.varint(&size) || !bytes.varint(&number) || row_ == rows_) return false;
    if (size > usable_ - 35) return long_record(bytes, size, static_cast<int64_t>(number));
    if (size > bytes.left()) return false;
    return record({bytes.at, bytes.at + size}, static_cast<int64_t>(number));
  }

  // A record that goes on in other pages, of which each has the number of the next in front.
  bool long_record(Bytes bytes, uint64_t size, int64_t number) noexcept {
    if (size > kMostRecord) return false;
    uint64_t least = (usable_ - 12) * 32 / 255 - 23, own = least + (size - least) % (usable_ - 4);
    if (own > usable_ - 35) own = least;
    if (bytes.left() < own + 4) return false;
    long_.clear();
    if (!long_.append(bytes.at, own)) return false;
    uint64_t next = big_endian(bytes.at + own, 4);
    while (long_.size() < size) {
      if (!load(static_cast<uint32_t>(next), &further_)) return false;
      uint64_t left = size - long_.size(), most = usable_ - 4;
      if (!long_.append(further_.data() + 4, left < most ? left : most)) return false;
      next = big_endian(further_.data(), 4);
    }
    if (!long_.resize(size + kPadding)) return false;
    memset(long_.data() + size, 0, kPadding);
    return record({long_.data(), long_.data() + size}, number);
  }

  bool record(Bytes record, int64_t number) noexcept {
    uint64_t header_size;
    const uint8_t* begin = record.at;
    if (!record.varint(&header_size) || header_size > static_cast<size_t>(record.end - begin)) return false;
    if (header_size < static_cast<size_t>(record.at - begin)) return false;
    const uint8_t* values = begin + header_size;
    // Most records of a table have the header of the one before.
    bool is_known = header_size == header_.size() && memcmp(begin, header_.data(), header_size) == 0;
    if (!is_known && (!lay_out({record.at, values}) || !header_.resize(0) || !header_.append(begin, header_size))) return false;
    if (size_ > static_cast<size_t>(record.end - values)) return false;
    for (uint32_t at = 0; at < count_; at++) {
      if (wanted_[at].place == kRowNumber) {
        if (!value(&wanted_[at], 6, number, {})) return false;
        continue;
      }
      auto [type, place, size] = cells_[at];
      int64_t one = type >= 10 || !size ? static_cast<int64_t>(type == 9) : whole(values + place, size);
      if (!value(&wanted_[at], type, one, {reinterpret_cast<const char*>(values + place), size})) return false;
    }
    row_++;
    return true;
  }

  // Where each wanted value lies in records with this header.
  bool lay_out(Bytes types) noexcept {
    size_ = 0;
    for (uint32_t place = 0; place < places_; place++) {
      uint64_t type;
      if (types.at == types.end || !types.varint(&type)) return false;
      static constexpr uint8_t kSizes[] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0};
      uint64_t size = type < 10 ? kSizes[type] : type >= 12 ? (type - 12) / 2 : UINT64_MAX;
      if (size > kMostRecord) return false;
      for (uint32_t at = first_[place]; at != UINT32_MAX; at = next_[at]) cells_[at] = {type, size_, static_cast<size_t>(size)};
      size_ += size;
    }
    return true;
  }

  // `type` as in a record. A number is in `one`: whole, or the bits of a decimal.
  bool value(WantedColumn* of, uint64_t type, int64_t one, Span bytes) noexcept {
    bool is_whole = type != 0 && type != 7 && type < 10;
    switch (of->values) {
      case Values::WHOLE:
        if (!is_whole && type != 0) return false;
        return keep(of, type == 0 ? kNone : one), true;
      case Values::DECIMAL: {
        if (type >= 10) return false;
        double decimal = static_cast<double>(one);
        if (is_whole) memcpy(&one, &decimal, sizeof one);
        memcpy(&decimal, &one, sizeof one);
        return keep(of, type == 0 || decimal != decimal ? kInfinite : one), true;
      }
      case Values::TEXT: {
        if (type == 0) return keep(of, 0), true;
        uint32_t id;
        text_.clear();
        if (type < 13 || type % 2 == 0 || !append_valid(bytes, &text_) || !texts_->id({text_.data(), text_.size()}, &id)) return false;
        return keep(of, id), true;
      }
    }
    return false;
  }

  void keep(WantedColumn* of, int64_t value) noexcept {
    if (!of->varies) {
      if (row_ == 0) of->first = value;
      if (value == of->first) return;
      for (int64_t row = 0; row < row_; row++) of->to[row] = of->first;
      of->varies = 1;
    }
    of->to[row_] = value;
  }

  // Reads 8 bytes, also past the number: a page has padding.
  static int64_t whole(const uint8_t* at, size_t size) noexcept {
    uint64_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    return static_cast<int64_t>(__builtin_bswap64(bytes)) >> (64 - 8 * static_cast<int>(size));
  }

  int file_;
  WantedColumn* wanted_;
  uint32_t count_;
  int64_t rows_, row_ = 0;
  size_t page_size_ = 0, usable_ = 0;
  uint64_t pages_left_ = 0;
  uint32_t places_ = 0;
  Texts* texts_;
  Array<uint8_t> header_;          // of the last record
  Array<Cell> cells_;              // of each column in it
  size_t size_ = 0;                // of its values, as far as they are wanted
  Array<uint32_t> first_, next_;   // the columns that want each place
  Array<uint8_t> long_, further_;  // a record, and a page that it goes on in
  Array<char> text_;
};

}  // namespace

bool sqlite_columns(int file, uint32_t root, WantedColumn* wanted, uint32_t count, int64_t rows, Texts* texts) noexcept {
  return Table(file, wanted, count, rows, texts).read(root);
}

}  // namespace aiflame::trace_reader
