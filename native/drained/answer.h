/* The forms Drained and Problem (docs/reference/schemas), and their texts as src/inspect/wire/drained.ts makes them. Pure. */
#ifndef ANSWER_H
#define ANSWER_H

#include "json.h"

/* Whether it has all fields of the form Drained. */
bool answer_has_form(struct json answer);
/* Of an answer that has the form. */
bool answer_is_drained(struct json answer);
/* The message of a Problem; JSON_NONE where it is none. */
struct json problem_message(struct json problem);

/* Characters of a string, a half of a surrogate pair as U+FFFD, up to the end of its first line where that is asked for. */
void put_string(struct sink *sink, struct json string, bool is_first_line);
/* Both are of an answer that has the form. `waited`: milliseconds, instead of those that it says. */
void put_answer_text(struct sink *sink, struct json answer, uint64_t waited);
void put_answer_json(struct sink *sink, struct json answer, uint64_t waited);

#endif
