/* SPDX-License-Identifier: Apache-2.0 */
/* demo_text.c: a text for demonstrations, simple and regular, so that a small model of characters visibly learns words,
   then sentences, then who does what. A handwritten page comes first. The stories after it come from a grammar: a
   template is text with the names of lists in braces, {who} and so on, and each story has one hero, one friend, one
   thing and one location, so that names which return in it can be learned. */
#include "data/dataset.h"

#include "base/host/stop.h"
#include "numeric/counter_rng.h"

static const char page[] =
    "The river begins in the hills. At first it is so small that a child can step over it. It runs between stones, "
    "it sings a little, and it does not know where it goes. Then another stream joins it, and another, and soon there "
    "is a bridge.\n"
    "\n"
    "Below the bridge is a mill. The wheel of the mill turns day and night. The miller says that the river works for "
    "him. The river says nothing. It turns the wheel because the wheel is there, and then it goes on to the town.\n"
    "\n"
    "In the town the river is wide and slow. There are boats on it, and ducks, and in the evening there are lights. "
    "People sit on the wall and look at the water. A girl throws a small stick from the bridge, runs to the other "
    "side, "
    "and waits until it comes. Then she laughs and throws another one.\n"
    "\n"
    "\"Where does the water go?\" she asks her grandfather.\n"
    "\n"
    "\"To the sea,\" says the old man.\n"
    "\n"
    "\"And what does it do there?\"\n"
    "\n"
    "\"It rests for a while. Then the sun lifts it up, the wind carries it home, and it falls on the hills as rain. In "
    "the morning it begins again.\"\n"
    "\n"
    "The girl thinks about this for a long time. Then she takes a third stick, and looks at it carefully, and does not "
    "throw it. \"This one,\" she says, \"I will keep until the water comes back.\"\n"
    "\n";

/* ---- The lists ---- */

static const char *const heroes[] = {"fox",  "hare", "crow",   "otter", "mouse", "goat", "owl",
                                     "bear", "duck", "beaver", "cat",   "dog",   "frog", "badger"};
static const char *const things[] = {"lamp", "boat", "bell", "basket", "letter", "kite", "drum", "ladder", "key"};
static const char *const kinds[] = {"small", "new", "red", "blue", "heavy", "broken", "shiny", "wooden"};
static const char *const sites[] = {"the river",  "the bridge",  "the old mill", "the forest",
                                    "the market", "the harbour", "the hill",     "the garden"};
static const char *const moods[] = {"happy", "tired", "hungry", "proud", "curious", "calm"};
static const char *const times[] = {"One morning",   "One evening",    "On a cold day",
                                    "On a warm day", "After the rain", "Before the snow came"};
static const char *const ways[] = {"slowly", "quickly", "carefully", "quietly", "at once"};
static const char *const foods[] = {"bread", "apples", "nuts", "soup", "honey", "cheese"};
static const char *const numbers[] = {"two", "three", "four", "five", "six", "seven"};

static const char *const openings[] = {
    "{time} the {hero} went to {site}. ",
    "{time} the {hero} was {mood} and walked to {site}. ",
    "The {hero} lived near {site}. {time} it woke up early. ",
};
static const char *const finds[] = {
    "There it found a {kind} {thing}. ",
    "It saw a {kind} {thing} in the grass. ",
    "Under a tree there was a {kind} {thing}. ",
};
static const char *const middles[] = {
    "\"Whose {thing} is this?\" asked the {hero}. \"It is mine,\" said the {friend}. ",
    "The {hero} took the {thing} and carried it {way} to the {friend}. ",
    "The {friend} came {way} and looked at the {thing}. ",
    "The {hero} waited for {number} hours, but no one came. Then the {friend} came. ",
    "\"I have {number} of them,\" said the {friend}, \"but not a {kind} one.\" ",
};
static const char *const turns[] = {
    "The {hero} gave the {thing} to the {friend}, and the {friend} gave it {food}. ",
    "They cleaned the {thing} {way} and put it near {site}. ",
    "\"Thank you,\" said the {friend}. \"Thank you,\" said the {hero}. ",
    "So the {hero} and the {friend} shared {food} and talked about {site}. ",
    "It rained for {number} days, and the {thing} was safe and dry. ",
};
static const char *const endings[] = {
    "In the end the {hero} was {mood}, and the {friend} was {mood} too.\n\n",
    "Then the {hero} went home {way}.\n\n",
    "The next day they met again at {site}.\n\n",
    "And that is why the {thing} is still there.\n\n",
};

#define LIST(list) (list), sizeof(list) / sizeof *(list)

/* A word that a template names. Those of a story are chosen once, at its beginning. */
static const struct {
    const char *name;
    const char *const *words;
    size_t n;
    bool is_fixed;
} lists[] = {
    {"hero", LIST(heroes), true},     {"friend", LIST(heroes), true}, {"thing", LIST(things), true},
    {"site", LIST(sites), true},      {"kind", LIST(kinds), false},   {"mood", LIST(moods), false},
    {"time", LIST(times), false},     {"way", LIST(ways), false},     {"food", LIST(foods), false},
    {"number", LIST(numbers), false},
};

enum { NUM_LISTS = sizeof lists / sizeof *lists, HERO = 0, FRIEND = 1 };

/* ---- Stories ---- */

typedef struct {
    flxi_rng rng;
    uint64_t drawn;
    const char *chosen[NUM_LISTS];
    flxi_strbuf *out;
} writer;

static const char *pick(writer *w, const char *const *words, size_t n)
{
    return words[(uint64_t)flxi_rng_word(&w->rng, w->drawn++) * n >> 32];
}

/* The text of the list whose name is at `name`, up to a closing brace. */
static void write_word(writer *w, const char *name, size_t size)
{
    for (size_t i = 0; i < NUM_LISTS; i++)
        if (strlen(lists[i].name) == size && memcmp(lists[i].name, name, size) == 0)
            flxi_add_text(w->out, lists[i].is_fixed ? w->chosen[i] : pick(w, lists[i].words, lists[i].n));
}

static void write_sentence(writer *w, const char *const *templates, size_t n)
{
    const char *s = pick(w, templates, n);
    for (const char *open; (open = strchr(s, '{')) != NULL;) {
        const char *close = strchr(open, '}');
        flxi_add_bytes(w->out, s, (size_t)(open - s));
        write_word(w, open + 1, (size_t)(close - open - 1));
        s = close + 1;
    }
    flxi_add_text(w->out, s);
}

static void write_story(writer *w)
{
    for (size_t i = 0; i < NUM_LISTS; i++)
        w->chosen[i] = pick(w, lists[i].words, lists[i].n);
    while (w->chosen[FRIEND] == w->chosen[HERO])
        w->chosen[FRIEND] = pick(w, lists[FRIEND].words, lists[FRIEND].n);
    write_sentence(w, LIST(openings));
    write_sentence(w, LIST(finds));
    write_sentence(w, LIST(middles));
    write_sentence(w, LIST(turns));
    write_sentence(w, LIST(endings));
}

flx_code flx_demo_text(flx_context *ctx, size_t size, uint64_t seed, flx_buffer *out, flx_error *err)
{
    if (!ctx || !out)
        return flxi_fail(err, FLX_E_USAGE, "flx_demo_text: context and buffer must not be NULL");
    int64_t limit = flxi_context_limit(ctx);
    if (limit > 0 && size > (size_t)limit)
        return flxi_fail(err, FLX_E_SIZE, "a text of %zu bytes is larger than the limit", size);
    flxi_strbuf text;
    flxi_strbuf_init(&text, flxi_context_mem(ctx));
    flxi_add_text(&text, page);
    writer w = {.rng = flxi_rng_seeded(seed, 0), .out = &text};
    while (text.n < size && !text.failed && !flxi_stopped_by_now())
        write_story(&w);
    if (flxi_stop_check(err) != FLX_OK) {
        flxi_strbuf_free(&text);
        return FLX_E_CANCELLED;
    }
    return flxi_buffer_finish(&text, ctx, out, err);
}
