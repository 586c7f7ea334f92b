/* Pieces of text with their lengths, and where text goes. Pure. */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slice {
  const char *at;
  size_t length;
};

/* Of a text that ends with a zero byte. */
struct slice slice_of(const char *text);
bool is_same(struct slice a, const char *text);
/* Letters of ASCII in either case. */
bool is_same_word(struct slice a, const char *text);
bool starts_with(struct slice text, const char *start);
bool has_byte(struct slice text, char byte);
/* Without blanks, tabs and ends of lines on both sides. */
struct slice trimmed(struct slice text);
/* Takes the first line from `text`, without its end. false: there is none. */
bool take_line(struct slice *text, struct slice *line);
/* Takes the next word, of anything but blanks, from `text`. false: there is none. */
bool take_word(struct slice *text, struct slice *word);
/* Decimal digits alone, of at most `most`. */
bool read_number(struct slice digits, uint64_t most, uint64_t *number);

bool is_digit(char byte);
/* -1: it is no hexadecimal digit, of either case. */
int hex_digit(char byte);
char lower(char byte);

/* Something that takes text. */
struct sink {
  void (*take)(struct sink *sink, const char *bytes, size_t length);
};

void put(struct sink *sink, const char *text);
void put_slice(struct sink *sink, struct slice text);
void put_number(struct sink *sink, uint64_t number);
/* 1,234,567 */
void put_grouped(struct sink *sink, uint64_t number);

/* A sink that keeps what fits. */
struct text {
  struct sink sink;
  char *at;
  size_t length;
  size_t most;
  /* Something did not fit. */
  bool is_cut;
};

struct text text_in(char *bytes, size_t most);
struct slice kept(const struct text *text);

#define TEXT_IN(array) text_in((array), sizeof(array))

#endif
