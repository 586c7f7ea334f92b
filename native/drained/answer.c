#include "answer.h"

/* Nodes that the text lists; the others are counted. */
enum { MOST_NODES = 5 };

static bool has_head(struct json answer, const char *kind) {
  return json_is_text(json_member(answer, "apiVersion"), "slicewire/v1") && json_is_text(json_member(answer, "kind"), kind);
}

static bool is_string(struct json value) {
  return value.kind == JSON_STRING;
}

static bool is_boolean(struct json value) {
  return value.kind == JSON_TRUE || value.kind == JSON_FALSE;
}

static bool is_integer(struct json value) {
  int64_t number;
  return json_integer(value, &number);
}

/* The number of `length` digits at `at`; -1: there are others. */
static int digits_at(const char *at, int length) {
  int number = 0;
  for (int place = 0; place < length; place++) {
    if (!is_digit(at[place])) return -1;
    number = number * 10 + (at[place] - '0');
  }
  return number;
}

static int days_of(int year, int month) {
  bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  if (month == 2) return is_leap ? 29 : 28;
  return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

/* 2026-11-22T12:03:04.567Z, without escapes; or null. */
static bool is_moment(struct json value) {
  static const char FORM[] = "\"dddd-dd-ddTdd:dd:dd.dddZ\"";
  if (value.kind == JSON_NULL) return true;
  if (value.kind != JSON_STRING || value.end - value.at != sizeof FORM - 1) return false;
  for (size_t at = 0; at < sizeof FORM - 1; at++)
    if (FORM[at] == 'd' ? !is_digit(value.at[at]) : value.at[at] != FORM[at]) return false;
  int year = digits_at(value.at + 1, 4);
  int month = digits_at(value.at + 6, 2);
  int day = digits_at(value.at + 9, 2);
  bool is_day = month >= 1 && month <= 12 && day >= 1 && day <= days_of(year, month);
  return is_day && digits_at(value.at + 12, 2) <= 23 && digits_at(value.at + 15, 2) <= 59 && digits_at(value.at + 18, 2) <= 59;
}

static bool are_nodes(struct json nodes) {
  const char *at = NULL;
  struct json node;
  while (json_element(nodes, &at, &node)) {
    if (!is_string(json_member(node, "node")) || !is_string(json_member(node, "why")) || !is_moment(json_member(node, "since")))
      return false;
  }
  return nodes.kind == JSON_ARRAY;
}

bool answer_has_form(struct json answer) {
  struct json services = json_member(answer, "services");
  struct json nodes = json_member(answer, "nodes");
  struct json waited = json_member(answer, "waited");
  const char *at = NULL;
  struct json service;
  while (json_element(services, &at, &service))
    if (!is_string(service)) return false;
  return has_head(answer, "Drained") && is_boolean(json_member(answer, "drained")) && is_string(json_member(answer, "of")) &&
         services.kind == JSON_ARRAY && is_string(json_member(answer, "why")) && is_integer(json_member(nodes, "programmed")) &&
         are_nodes(json_member(nodes, "behind")) && is_integer(json_member(nodes, "behindCount")) &&
         are_nodes(json_member(nodes, "leftOut")) && is_integer(json_member(nodes, "leftOutCount")) &&
         waited.kind == JSON_NUMBER && *waited.at != '-';
}

bool answer_is_drained(struct json answer) {
  return json_member(answer, "drained").kind == JSON_TRUE;
}

struct json problem_message(struct json problem) {
  struct json message = json_member(problem, "message");
  if (has_head(problem, "Problem") && is_string(message)) return message;
  return (struct json){JSON_NONE, NULL, NULL};
}

static void put_character(struct sink *sink, uint32_t character) {
  char bytes[4];
  size_t length = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
  for (size_t place = length - 1; place > 0; place--) {
    bytes[place] = (char)(0x80 | (character & 0x3f));
    character >>= 6;
  }
  static const uint8_t FIRST[] = {0, 0, 0xc0, 0xe0, 0xf0};
  bytes[0] = (char)(FIRST[length] | character);
  sink->take(sink, bytes, length);
}

static bool is_half(uint32_t character) {
  return character >= 0xd800 && character <= 0xdfff;
}

void put_string(struct sink *sink, struct json string, bool is_first_line) {
  struct json_reader reader = json_characters(string);
  uint32_t character;
  while (json_character(&reader, &character) && !(is_first_line && character == '\n'))
    put_character(sink, is_half(character) ? 0xfffd : character);
}

static void put_signed(struct sink *sink, int64_t number) {
  if (number < 0) put(sink, "-");
  put_number(sink, (uint64_t)(number < 0 ? -number : number));
}

static int64_t number_of(struct json object, const char *name) {
  int64_t number = 0;
  json_integer(json_member(object, name), &number);
  return number;
}

/* 1 node, 1,234 nodes */
static void put_nodes_count(struct sink *sink, int64_t count) {
  if (count < 0) put(sink, "-");
  put_grouped(sink, (uint64_t)(count < 0 ? -count : count));
  put(sink, count == 1 ? " node" : " nodes");
}

/* 8.0 ms, 12 ms, 3.1 s */
static void put_time(struct sink *sink, uint64_t milliseconds) {
  if (milliseconds >= 1000) {
    uint64_t tenths = (milliseconds + 50) / 100;
    put_number(sink, tenths / 10);
    put(sink, ".");
    put_number(sink, tenths % 10);
    put(sink, " s");
    return;
  }
  put_number(sink, milliseconds);
  put(sink, milliseconds >= 10 || milliseconds == 0 ? " ms" : ".0 ms");
}

/* ", of a", ", of a and b", ", of a, b and c" */
static void put_services(struct sink *sink, struct json services) {
  size_t count = 0;
  const char *at = NULL;
  struct json service;
  while (json_element(services, &at, &service)) count++;
  at = NULL;
  for (size_t place = 0; json_element(services, &at, &service); place++) {
    put(sink, place == 0 ? ", of " : place + 1 < count ? ", " : " and ");
    put_string(sink, service, false);
  }
}

static void put_node_lines(struct sink *sink, const char *title, struct json list, int64_t count) {
  if (count == 0) return;
  put(sink, "\n");
  put_nodes_count(sink, count);
  put(sink, title);
  const char *at = NULL;
  struct json node;
  int64_t lines = 0;
  for (; lines < MOST_NODES && json_element(list, &at, &node); lines++) {
    put(sink, "\n  ");
    put_string(sink, json_member(node, "node"), false);
    put(sink, ": ");
    put_string(sink, json_member(node, "why"), true);
  }
  if (count <= lines) return;
  put(sink, "\n  and ");
  put_number(sink, (uint64_t)(count - lines));
  put(sink, " more");
}

void put_answer_text(struct sink *sink, struct json answer, uint64_t waited) {
  struct json nodes = json_member(answer, "nodes");
  put_string(sink, json_member(answer, "of"), false);
  put_services(sink, json_member(answer, "services"));
  if (answer_is_drained(answer)) {
    int64_t programmed = number_of(nodes, "programmed");
    put(sink, ": drained after ");
    put_time(sink, waited);
    put(sink, ". ");
    put_nodes_count(sink, programmed);
    put(sink, programmed == 1 ? " sends nothing new to it." : " send nothing new to it.");
  } else {
    put(sink, ": not drained after ");
    put_time(sink, waited);
    put(sink, ": ");
    put_string(sink, json_member(answer, "why"), false);
  }
  put_node_lines(sink, " behind:", json_member(nodes, "behind"), number_of(nodes, "behindCount"));
  put_node_lines(sink, " not waited for:", json_member(nodes, "leftOut"), number_of(nodes, "leftOutCount"));
}

static void put_hex(struct sink *sink, uint32_t unit) {
  put(sink, "\\u");
  for (int shift = 12; shift >= 0; shift -= 4) sink->take(sink, &"0123456789abcdef"[unit >> shift & 15], 1);
}

/* As JSON.stringify() has it. */
static void put_json_string(struct sink *sink, struct json string) {
  static const char ESCAPED[] = "\"\\\b\f\n\r\t";
  static const char NAMES[] = "\"\\bfnrt";
  struct json_reader reader = json_characters(string);
  uint32_t character;
  put(sink, "\"");
  while (json_character(&reader, &character)) {
    size_t which = 0;
    while (ESCAPED[which] != 0 && (uint8_t)ESCAPED[which] != character) which++;
    if (ESCAPED[which] != 0) {
      put(sink, "\\");
      sink->take(sink, &NAMES[which], 1);
    } else if (character < 0x20 || is_half(character)) put_hex(sink, character);
    else put_character(sink, character);
  }
  put(sink, "\"");
}

static void put_field(struct sink *sink, const char *name, struct json value) {
  put(sink, name);
  if (value.kind == JSON_STRING) put_json_string(sink, value);
  else put_slice(sink, (struct slice){value.at, (size_t)(value.end - value.at)});
}

static void put_json_services(struct sink *sink, struct json services) {
  const char *at = NULL;
  struct json service;
  bool is_empty = true;
  put(sink, ",\n  \"services\": [");
  for (; json_element(services, &at, &service); is_empty = false) put_field(sink, is_empty ? "\n    " : ",\n    ", service);
  put(sink, is_empty ? "]" : "\n  ]");
}

static void put_json_nodes(struct sink *sink, const char *name, struct json list) {
  const char *at = NULL;
  struct json node;
  bool is_empty = true;
  put(sink, name);
  for (; json_element(list, &at, &node); is_empty = false) {
    put(sink, is_empty ? "\n      {\n" : ",\n      {\n");
    put_field(sink, "        \"node\": ", json_member(node, "node"));
    put_field(sink, ",\n        \"since\": ", json_member(node, "since"));
    put_field(sink, ",\n        \"why\": ", json_member(node, "why"));
    put(sink, "\n      }");
  }
  put(sink, is_empty ? "]" : "\n    ]");
}

void put_answer_json(struct sink *sink, struct json answer, uint64_t waited) {
  struct json nodes = json_member(answer, "nodes");
  put_field(sink, "{\n  \"apiVersion\": ", json_member(answer, "apiVersion"));
  put_field(sink, ",\n  \"kind\": ", json_member(answer, "kind"));
  put_field(sink, ",\n  \"drained\": ", json_member(answer, "drained"));
  put_field(sink, ",\n  \"of\": ", json_member(answer, "of"));
  put_json_services(sink, json_member(answer, "services"));
  put_field(sink, ",\n  \"why\": ", json_member(answer, "why"));
  put(sink, ",\n  \"nodes\": {\n    \"programmed\": ");
  put_signed(sink, number_of(nodes, "programmed"));
  put_json_nodes(sink, ",\n    \"behind\": [", json_member(nodes, "behind"));
  put(sink, ",\n    \"behindCount\": ");
  put_signed(sink, number_of(nodes, "behindCount"));
  put_json_nodes(sink, ",\n    \"leftOut\": [", json_member(nodes, "leftOut"));
  put(sink, ",\n    \"leftOutCount\": ");
  put_signed(sink, number_of(nodes, "leftOutCount"));
  put(sink, "\n  },\n  \"waited\": ");
  put_number(sink, waited);
  put(sink, "\n}");
}
