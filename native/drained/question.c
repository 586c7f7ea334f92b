#include "question.h"

/* Characters of a duration, as src/base/duration.ts has it. */
enum { MOST_DURATION = 100 };
#define MOST_TIMEOUT INT64_C(600000000000)

/* Nanoseconds of a unit; 0: it is none. */
static int64_t unit_of(struct slice unit) {
  static const struct {
    const char *name;
    int64_t size;
  } UNITS[] = {
      {"ns", 1},
      {"us", 1000},
      // Go takes both letters: the micro sign, and the Greek mu.
      {"\u00b5s", 1000},
      {"\u03bcs", 1000},
      {"ms", 1000000},
      {"s", 1000000000},
      {"m", 60000000000},
      {"h", 3600000000000},
  };
  for (size_t at = 0; at < sizeof UNITS / sizeof *UNITS; at++)
    if (is_same(unit, UNITS[at].name)) return UNITS[at].size;
  return 0;
}

/* One number with its unit, as 1.5s; the sum is at most above MOST_TIMEOUT. -1: there is none. */
static int64_t take_part(struct slice *text) {
  double number = 0;
  double place = 1;
  bool has_digit = false;
  bool has_point = false;
  while (text->length > 0 && (is_digit(text->at[0]) || (text->at[0] == '.' && !has_point))) {
    if (text->at[0] == '.') has_point = true;
    else {
      has_digit = true;
      if (has_point) place /= 10;
      number = has_point ? number + place * (text->at[0] - '0') : number * 10 + (text->at[0] - '0');
    }
    text->at++;
    text->length--;
  }
  struct slice unit = {text->at, 0};
  while (text->length > 0 && !is_digit(text->at[0]) && text->at[0] != '.') {
    unit.length++;
    text->at++;
    text->length--;
  }
  int64_t size = unit_of(unit);
  if (!has_digit || size == 0) return -1;
  double nanoseconds = number * (double)size;
  if (nanoseconds > (double)MOST_TIMEOUT) return MOST_TIMEOUT + 1;
  // Less than a nanosecond is still more than nothing.
  return nanoseconds > 0 && nanoseconds < 1 ? 1 : (int64_t)nanoseconds;
}

int64_t read_timeout(struct slice text) {
  if (text.length > MOST_DURATION) return -1;
  if (text.length > 0 && text.at[0] == '+') {
    text.at++;
    text.length--;
  }
  int64_t total = 0;
  while (text.length > 0) {
    int64_t part = take_part(&text);
    if (part < 0) return -1;
    total += part;
    if (total > MOST_TIMEOUT) return -1;
  }
  return total > 0 ? total : -1;
}

static bool is_letter_or_digit(char byte) {
  return is_digit(byte) || (byte >= 'a' && byte <= 'z');
}

/* Small letters, digits, dashes and dots, of which the first and the last is a letter or a digit. */
static bool is_kubernetes_name(struct slice name) {
  if (name.length == 0 || name.length > MOST_NAME) return false;
  for (size_t at = 0; at < name.length; at++)
    if (!is_letter_or_digit(name.at[at]) && name.at[at] != '-' && name.at[at] != '.') return false;
  return is_letter_or_digit(name.at[0]) && is_letter_or_digit(name.at[name.length - 1]);
}

bool is_pod(struct slice text) {
  size_t slash = 0;
  while (slash < text.length && text.at[slash] != '/') slash++;
  if (slash == text.length) return false;
  return is_kubernetes_name((struct slice){text.at, slash}) &&
         is_kubernetes_name((struct slice){text.at + slash + 1, text.length - slash - 1});
}

/* Digits, or 0x and hexadecimal digits: with such an end, a URL has an address in one of its old forms (http://10.0.1). */
static bool is_old_number(struct slice label) {
  bool is_hex = label.length >= 2 && label.at[0] == '0' && lower(label.at[1]) == 'x';
  for (size_t at = is_hex ? 2 : 0; at < label.length; at++) {
    char letter = lower(label.at[at]);
    if (!is_digit(letter) && !(is_hex && letter >= 'a' && letter <= 'f')) return false;
  }
  return true;
}

static bool is_host_name(struct slice host) {
  if (host.length == 0 || host.length > MOST_NAME) return false;
  if (host.at[host.length - 1] == '.') host.length--;
  size_t label = 0;
  for (size_t at = 0; at < host.length; at++) {
    char letter = lower(host.at[at]);
    if (!is_letter_or_digit(letter) && letter != '-' && letter != '_' && letter != '.') return false;
    if (letter != '.') continue;
    if (at == label) return false;
    label = at + 1;
  }
  return label < host.length && !is_old_number((struct slice){host.at + label, host.length - label});
}

bool read_fleet(struct slice text, struct fleet *fleet) {
  static const char SCHEME[] = "http://";
  size_t start = sizeof SCHEME - 1;
  if (text.length < start || !is_same_word((struct slice){text.at, start}, SCHEME)) return false;
  struct slice rest = {text.at + start, text.length - start};
  if (rest.length > 0 && rest.at[rest.length - 1] == '/') rest.length--;
  bool has_brackets = rest.length > 0 && rest.at[0] == '[';
  size_t end = 0;
  while (end < rest.length && rest.at[end] != (has_brackets ? ']' : ':')) end++;
  struct slice host = {rest.at, end};
  if (has_brackets) {
    if (end == rest.length) return false;
    host = (struct slice){rest.at + 1, end - 1};
    end++;
  }
  uint64_t port = 80;
  if (end < rest.length) {
    struct slice digits = {rest.at + end + 1, rest.length - end - 1};
    if (rest.at[end] != ':' || !read_number(digits, UINT16_MAX, &port) || port == 0) return false;
  }
  fleet->is_address = read_address(host, false, &fleet->address);
  if (fleet->is_address ? has_brackets != (fleet->address.length == 16) : has_brackets || !is_host_name(host)) return false;
  fleet->port = (uint16_t)port;
  struct text name = TEXT_IN(fleet->host_bytes);
  if (fleet->is_address) put_address(&name.sink, fleet->address);
  else
    for (size_t at = 0; at < host.length; at++) name.sink.take(&name.sink, &(char){lower(host.at[at])}, 1);
  fleet->host = kept(&name);
  struct text shown = TEXT_IN(fleet->shown_bytes);
  if (has_brackets) put(&shown.sink, "[");
  put_slice(&shown.sink, fleet->host);
  if (has_brackets) put(&shown.sink, "]");
  if (port != 80) {
    put(&shown.sink, ":");
    put_number(&shown.sink, port);
  }
  fleet->shown = kept(&shown);
  return true;
}

void put_encoded(struct sink *sink, struct slice text) {
  for (size_t at = 0; at < text.length; at++) {
    char byte = text.at[at];
    bool is_plain = is_letter_or_digit(lower(byte)) || has_byte(slice_of("*-._"), byte);
    if (is_plain) {
      sink->take(sink, &byte, 1);
      continue;
    }
    put(sink, "%");
    sink->take(sink, &"0123456789ABCDEF"[(uint8_t)byte >> 4], 1);
    sink->take(sink, &"0123456789ABCDEF"[byte & 15], 1);
  }
}
