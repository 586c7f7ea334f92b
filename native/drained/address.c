#include "address.h"

static bool read_v4(struct slice text, bool is_lenient, uint8_t *bytes) {
  size_t at = 0;
  for (int place = 0; place < 4; place++) {
    struct slice digits = {text.at + at, 0};
    while (at < text.length && is_digit(text.at[at])) {
      at++;
      digits.length++;
    }
    uint64_t number;
    bool has_zeros = digits.length > 1 && digits.at[0] == '0';
    if (digits.length > 3 || (has_zeros && !is_lenient) || !read_number(digits, 255, &number)) return false;
    bytes[place] = (uint8_t)number;
    if (place < 3 && (at == text.length || text.at[at++] != '.')) return false;
  }
  return at == text.length;
}

/* Groups of up to four hexadecimal digits; the last may be dotted decimal. -1: there are others; otherwise their bytes. */
static int read_groups(struct slice text, int most, uint8_t *bytes) {
  int length = 0;
  size_t at = 0;
  if (text.length == 0) return 0;
  for (;;) {
    size_t first = at;
    uint32_t group = 0;
    while (at < text.length && hex_digit(text.at[at]) >= 0 && at - first < 4) group = group * 16 + (uint32_t)hex_digit(text.at[at++]);
    if (at < text.length && text.at[at] == '.') {
      if (length + 4 > most || !read_v4((struct slice){text.at + first, text.length - first}, false, bytes + length)) return -1;
      return length + 4;
    }
    if (at == first || length + 2 > most) return -1;
    bytes[length++] = (uint8_t)(group >> 8);
    bytes[length++] = (uint8_t)group;
    if (at == text.length) return length;
    if (text.at[at++] != ':') return -1;
  }
}

static bool read_v6(struct slice text, uint8_t *bytes) {
  size_t gap = 0;
  while (gap + 1 < text.length && !(text.at[gap] == ':' && text.at[gap + 1] == ':')) gap++;
  if (gap + 1 >= text.length) return read_groups(text, 16, bytes) == 16;
  uint8_t after[16];
  // A gap stands for one group at least.
  int head = read_groups((struct slice){text.at, gap}, 14, bytes);
  if (head < 0 || has_byte((struct slice){text.at, gap}, '.')) return false;
  int tail = read_groups((struct slice){text.at + gap + 2, text.length - gap - 2}, 14 - head, after);
  if (tail < 0) return false;
  for (int at = head; at < 16; at++) bytes[at] = at < 16 - tail ? 0 : after[at - (16 - tail)];
  return true;
}

bool read_address(struct slice text, bool is_lenient, struct address *address) {
  address->length = has_byte(text, ':') ? 16 : 4;
  return address->length == 16 ? read_v6(text, address->bytes) : read_v4(text, is_lenient, address->bytes);
}

static void put_group(struct sink *sink, uint32_t group) {
  bool has_begun = false;
  for (int shift = 12; shift >= 0; shift -= 4) {
    uint32_t digit = group >> shift & 15;
    has_begun = has_begun || digit != 0 || shift == 0;
    if (has_begun) sink->take(sink, &"0123456789abcdef"[digit], 1);
  }
}

void put_address(struct sink *sink, struct address address) {
  if (address.length == 4) {
    for (int place = 0; place < 4; place++) {
      if (place > 0) put(sink, ".");
      put_number(sink, address.bytes[place]);
    }
    return;
  }
  uint32_t groups[8];
  for (int place = 0; place < 8; place++) groups[place] = (uint32_t)(address.bytes[2 * place] << 8 | address.bytes[2 * place + 1]);
  // The first of the longest series of zeros, of two groups at least.
  int first = 8;
  int length = 1;
  for (int place = 0; place < 8; place++) {
    int end = place;
    while (end < 8 && groups[end] == 0) end++;
    if (end - place > length) {
      first = place;
      length = end - place;
    }
  }
  for (int place = 0; place < 8; place++) {
    if (place == first) {
      put(sink, "::");
      place += length - 1;
      continue;
    }
    if (place > 0 && place != first + length) put(sink, ":");
    put_group(sink, groups[place]);
  }
}
