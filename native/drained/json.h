/* JSON (RFC 8259) that stays where it was received: values are pieces of the text. Pure. */
#ifndef JSON_H
#define JSON_H

#include "text.h"

enum json_kind {
  JSON_NONE,
  JSON_OBJECT,
  JSON_ARRAY,
  JSON_STRING,
  JSON_NUMBER,
  JSON_TRUE,
  JSON_FALSE,
  JSON_NULL,
};

/* A value whose text was checked. `at` to `end` is all of it: a string with its quotes, an object with its braces. */
struct json {
  enum json_kind kind;
  const char *at;
  const char *end;
};

/* JSON_NONE: the text is no JSON, is no UTF-8, or is nested more deeply than MOST_DEPTH. */
struct json json_read(struct slice text);
/* The last member of this name, as JSON.parse() has it; JSON_NONE where there is none, or where it is no object. */
struct json json_member(struct json object, const char *name);
/* Takes the next element. `at` is NULL at first. false: there is no other, or it is no array. */
bool json_element(struct json array, const char **at, struct json *element);
bool json_is_text(struct json value, const char *text);
/* An integer that JavaScript has exactly, without fraction and exponent. */
bool json_integer(struct json value, int64_t *number);

/* Goes through the characters of a string. A half of a surrogate pair that stands alone is given as it is. */
struct json_reader {
  const char *at;
  const char *end;
};
struct json_reader json_characters(struct json string);
bool json_character(struct json_reader *reader, uint32_t *character);

#endif
