#include "text.h"

struct slice slice_of(const char *text) {
  struct slice slice = {text, 0};
  while (text[slice.length] != 0) slice.length++;
  return slice;
}

bool is_same(struct slice a, const char *text) {
  size_t at = 0;
  while (at < a.length && text[at] != 0 && a.at[at] == text[at]) at++;
  return at == a.length && text[at] == 0;
}

bool is_same_word(struct slice a, const char *text) {
  size_t at = 0;
  while (at < a.length && text[at] != 0 && lower(a.at[at]) == lower(text[at])) at++;
  return at == a.length && text[at] == 0;
}

bool starts_with(struct slice text, const char *start) {
  size_t at = 0;
  while (at < text.length && start[at] != 0 && text.at[at] == start[at]) at++;
  return start[at] == 0;
}

bool has_byte(struct slice text, char byte) {
  for (size_t at = 0; at < text.length; at++)
    if (text.at[at] == byte) return true;
  return false;
}

static bool is_blank(char byte) {
  return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

struct slice trimmed(struct slice text) {
  while (text.length > 0 && is_blank(text.at[text.length - 1])) text.length--;
  while (text.length > 0 && is_blank(text.at[0])) {
    text.at++;
    text.length--;
  }
  return text;
}

bool take_line(struct slice *text, struct slice *line) {
  if (text->length == 0) return false;
  size_t length = 0;
  while (length < text->length && text->at[length] != '\n') length++;
  *line = (struct slice){text->at, length};
  size_t taken = length < text->length ? length + 1 : length;
  text->at += taken;
  text->length -= taken;
  return true;
}

bool take_word(struct slice *text, struct slice *word) {
  while (text->length > 0 && is_blank(text->at[0])) {
    text->at++;
    text->length--;
  }
  *word = (struct slice){text->at, 0};
  while (text->length > 0 && !is_blank(text->at[0])) {
    word->length++;
    text->at++;
    text->length--;
  }
  return word->length > 0;
}

bool read_number(struct slice digits, uint64_t most, uint64_t *number) {
  uint64_t read = 0;
  if (digits.length == 0) return false;
  for (size_t at = 0; at < digits.length; at++) {
    if (!is_digit(digits.at[at])) return false;
    uint64_t digit = (uint64_t)(digits.at[at] - '0');
    if (read > (most - digit) / 10 || digit > most) return false;
    read = read * 10 + digit;
  }
  *number = read;
  return true;
}

bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

int hex_digit(char byte) {
  if (is_digit(byte)) return byte - '0';
  char letter = lower(byte);
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

char lower(char byte) {
  return byte >= 'A' && byte <= 'Z' ? (char)(byte + ('a' - 'A')) : byte;
}

void put(struct sink *sink, const char *text) {
  put_slice(sink, slice_of(text));
}

void put_slice(struct sink *sink, struct slice text) {
  sink->take(sink, text.at, text.length);
}

/* Decimal digits of 2^64. */
enum { MOST_DIGITS = 20 };

void put_number(struct sink *sink, uint64_t number) {
  char digits[MOST_DIGITS];
  size_t at = MOST_DIGITS;
  do {
    digits[--at] = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  sink->take(sink, digits + at, MOST_DIGITS - at);
}

void put_grouped(struct sink *sink, uint64_t number) {
  char digits[MOST_DIGITS];
  struct text text = TEXT_IN(digits);
  put_number(&text.sink, number);
  for (size_t at = 0; at < text.length; at++) {
    if (at > 0 && (text.length - at) % 3 == 0) put(sink, ",");
    sink->take(sink, digits + at, 1);
  }
}

static void keep(struct sink *sink, const char *bytes, size_t length) {
  struct text *text = (struct text *)sink;
  for (size_t at = 0; at < length; at++) {
    if (text->length == text->most) {
      text->is_cut = true;
      return;
    }
    text->at[text->length++] = bytes[at];
  }
}

struct text text_in(char *bytes, size_t most) {
  return (struct text){.sink = {keep}, .at = bytes, .length = 0, .most = most, .is_cut = false};
}

struct slice kept(const struct text *text) {
  return (struct slice){text->at, text->length};
}
