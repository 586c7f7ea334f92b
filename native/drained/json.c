#include "json.h"

/* Levels of an answer: three. */
enum { MOST_DEPTH = 32 };
/* 2^53 - 1. */
#define MOST_INTEGER INT64_C(9007199254740991)

static const struct json NONE = {JSON_NONE, NULL, NULL};

static const char *past_blanks(const char *at, const char *end) {
  while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
  return at;
}

/* The 16 bits of \uXXXX, which `at` points to; -1: it is none. */
static int32_t escaped_unit(const char *at, const char *end) {
  if (end - at < 6 || at[0] != '\\' || at[1] != 'u') return -1;
  int32_t unit = 0;
  for (int place = 2; place < 6; place++) {
    int digit = hex_digit(at[place]);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

/* One character of UTF-8 (RFC 3629): neither too long, nor a surrogate, nor above U+10FFFF. NULL: it is none. */
static const char *utf8(const char *at, const char *end, uint32_t *character) {
  uint8_t first = (uint8_t)*at++;
  if (first < 0x80) {
    *character = first;
    return at;
  }
  int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  if (first < 0xc2 || first > 0xf4 || end - at < more) return NULL;
  uint32_t read = first & (0x3fu >> more);
  for (int place = 0; place < more; place++) {
    uint8_t byte = (uint8_t)*at++;
    if ((byte & 0xc0) != 0x80) return NULL;
    read = read << 6 | (byte & 0x3f);
  }
  static const uint32_t LEAST[] = {0, 0x80, 0x800, 0x10000};
  if (read < LEAST[more] || read > 0x10ffff || (read >= 0xd800 && read <= 0xdfff)) return NULL;
  *character = read;
  return at;
}

/* One character of a string, which may be escaped. NULL: it is none. */
static const char *character_at(const char *at, const char *end, uint32_t *character) {
  if (*at != '\\') return (uint8_t)*at < 0x20 ? NULL : utf8(at, end, character);
  if (end - at < 2) return NULL;
  static const char NAMES[] = "\"\\/bfnrt";
  static const char MEANT[] = "\"\\/\b\f\n\r\t";
  for (size_t which = 0; NAMES[which] != 0; which++) {
    if (at[1] != NAMES[which]) continue;
    *character = (uint8_t)MEANT[which];
    return at + 2;
  }
  int32_t unit = escaped_unit(at, end);
  if (unit < 0) return NULL;
  *character = (uint32_t)unit;
  at += 6;
  int32_t second = unit >= 0xd800 && unit <= 0xdbff ? escaped_unit(at, end) : -1;
  if (second < 0xdc00 || second > 0xdfff) return at;
  *character = 0x10000 + (((uint32_t)unit & 0x3ff) << 10 | ((uint32_t)second & 0x3ff));
  return at + 6;
}

static const char *past_string(const char *at, const char *end) {
  if (at >= end || *at++ != '"') return NULL;
  while (at < end && *at != '"') {
    uint32_t character;
    at = character_at(at, end, &character);
    if (at == NULL) return NULL;
  }
  return at < end ? at + 1 : NULL;
}

static const char *past_digits(const char *at, const char *end) {
  const char *first = at;
  while (at < end && is_digit(*at)) at++;
  return at == first ? NULL : at;
}

static const char *past_number(const char *at, const char *end) {
  if (at < end && *at == '-') at++;
  if (at < end && *at == '0') at++;
  else at = past_digits(at, end);
  if (at != NULL && at < end && *at == '.') at = past_digits(at + 1, end);
  if (at == NULL || at == end || lower(*at) != 'e') return at;
  at++;
  if (at < end && (*at == '+' || *at == '-')) at++;
  return past_digits(at, end);
}

static const char *past_word(const char *at, const char *end, const char *word) {
  while (at < end && *word != 0 && *at == *word) {
    at++;
    word++;
  }
  return *word == 0 ? at : NULL;
}

static enum json_kind kind_at(const char *at, const char *end) {
  if (at >= end) return JSON_NONE;
  switch (*at) {
    case '{': return JSON_OBJECT;
    case '[': return JSON_ARRAY;
    case '"': return JSON_STRING;
    case 't': return JSON_TRUE;
    case 'f': return JSON_FALSE;
    case 'n': return JSON_NULL;
    default: return *at == '-' || is_digit(*at) ? JSON_NUMBER : JSON_NONE;
  }
}

static const char *past_value(const char *at, const char *end, int depth);

/* An object or an array, which `at` points to. */
static const char *past_list(const char *at, const char *end, int depth) {
  if (depth == MOST_DEPTH) return NULL;
  bool is_object = *at == '{';
  char close = is_object ? '}' : ']';
  at = past_blanks(at + 1, end);
  if (at < end && *at == close) return at + 1;
  for (;;) {
    if (is_object) {
      at = past_string(at, end);
      if (at == NULL) return NULL;
      at = past_blanks(at, end);
      if (at == end || *at != ':') return NULL;
      at = past_blanks(at + 1, end);
    }
    at = past_value(at, end, depth + 1);
    if (at == NULL) return NULL;
    at = past_blanks(at, end);
    if (at == end) return NULL;
    if (*at == close) return at + 1;
    if (*at != ',') return NULL;
    at = past_blanks(at + 1, end);
  }
}

/* NULL: there is no value. */
static const char *past_value(const char *at, const char *end, int depth) {
  switch (kind_at(at, end)) {
    case JSON_OBJECT:
    case JSON_ARRAY: return past_list(at, end, depth);
    case JSON_STRING: return past_string(at, end);
    case JSON_NUMBER: return past_number(at, end);
    case JSON_TRUE: return past_word(at, end, "true");
    case JSON_FALSE: return past_word(at, end, "false");
    case JSON_NULL: return past_word(at, end, "null");
    default: return NULL;
  }
}

struct json json_read(struct slice text) {
  const char *end = text.at + text.length;
  const char *at = past_blanks(text.at, end);
  const char *past = past_value(at, end, 0);
  if (past == NULL || past_blanks(past, end) != end) return NONE;
  return (struct json){kind_at(at, end), at, past};
}

/* The value at this place of a text that was checked. */
static struct json checked_at(const char *at, const char *end) {
  const char *past = past_value(at, end, 0);
  return past == NULL ? NONE : (struct json){kind_at(at, end), at, past};
}

struct json json_member(struct json object, const char *name) {
  struct json found = NONE;
  if (object.kind != JSON_OBJECT) return found;
  const char *at = past_blanks(object.at + 1, object.end);
  while (*at != '}') {
    const char *past_name = past_string(at, object.end);
    struct json key = {JSON_STRING, at, past_name};
    // Past the colon.
    at = past_blanks(past_blanks(past_name, object.end) + 1, object.end);
    struct json value = checked_at(at, object.end);
    if (json_is_text(key, name)) found = value;
    at = past_blanks(value.end, object.end);
    if (*at == ',') at = past_blanks(at + 1, object.end);
  }
  return found;
}

bool json_element(struct json array, const char **at, struct json *element) {
  if (array.kind != JSON_ARRAY) return false;
  const char *next = past_blanks(*at == NULL ? array.at + 1 : *at, array.end);
  if (*next == ',') next = past_blanks(next + 1, array.end);
  if (*next == ']') return false;
  *element = checked_at(next, array.end);
  *at = element->end;
  return true;
}

struct json_reader json_characters(struct json string) {
  return (struct json_reader){string.at + 1, string.end - 1};
}

bool json_character(struct json_reader *reader, uint32_t *character) {
  if (reader->at >= reader->end) return false;
  reader->at = character_at(reader->at, reader->end, character);
  return reader->at != NULL;
}

bool json_is_text(struct json value, const char *text) {
  if (value.kind != JSON_STRING) return false;
  struct json_reader reader = json_characters(value);
  uint32_t character;
  while (json_character(&reader, &character)) {
    if (*text == 0 || character != (uint8_t)*text) return false;
    text++;
  }
  return *text == 0;
}

bool json_integer(struct json value, int64_t *number) {
  if (value.kind != JSON_NUMBER) return false;
  bool is_negative = *value.at == '-';
  const char *first = value.at + (is_negative ? 1 : 0);
  uint64_t read;
  if (!read_number((struct slice){first, (size_t)(value.end - first)}, MOST_INTEGER, &read)) return false;
  *number = is_negative ? -(int64_t)read : (int64_t)read;
  return true;
}
