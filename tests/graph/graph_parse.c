/* SPDX-License-Identifier: Apache-2.0 */
/* graph_parse.c: the grammar of the text form: files, graphs, declarations, statements, calls, returns, names,
   references, and the locations of errors. Numbers, dimensions and literals are in graph_parse_value.c. */
#include "graph/graph_text.h"

#include <stdio.h>

/* Tokens that can appear in a file, and the printed main graph. */
static void check_accepted(const char *text)
{
    flx_context *ctx = flx_context_new(NULL);
    test_fail_context("%s", text);
    flx_graph *g = graph_of(ctx, text);
    check_round_trip(g);
    flx_graph_release(g);
    flx_context_free(ctx);
    test_fail_context("%s", "");
    test_count_case();
}

/* ---- Layout ---- */

TEST(parse_layout_is_free)
{
    static const char *const expected = "graph f(x: f32[2]) {\n  y = add(x, x)\n  return y\n}\n";
    check_prints("graph f(x:f32[2]){y=add(x,x)return y}", expected);
    check_prints("\n\tgraph\r\nf (\nx\n:\nf32\n[\n2\n]\n)\n{\ny\n=\nadd\n(\nx\n,\nx\n)\nreturn\ny\n}\n\n", expected);
    check_prints("# one\ngraph f(# two\nx: f32[2]) { # three }\ny = add(x, x) # return\nreturn y } # end", expected);
    check_prints("graph f(x: f32[2],) { y = add(x, x,) return y, }", expected);
    check_prints("graph f(x: f32[2,]) { y = add(x, x) return y }", expected);
}

TEST(parse_empty_parts_are_fine)
{
    check_prints("graph f(){return}", "graph f() {\n  return\n}\n");
    check_prints("graph f() { return 1 }", "graph f() {\n  out0 = const(f32[], 1)\n  return out0\n}\n");
    check_accepted("graph f(x: f32[]) { return }");
    check_accepted("graph f(x: f32[0]) { return x }");
}

TEST(parse_text_without_a_graph_is_refused)
{
    check_refused("", FLX_E_SYNTAX, "1:1", "no graph");
    check_refused("  # only a comment", FLX_E_SYNTAX, "1:1", "no graph");
    check_refused("x", FLX_E_SYNTAX, "1:1", "'graph'");
    check_refused("graph", FLX_E_SYNTAX, "1:6", "the name of the graph");
    check_refused("graph 1() { return }", FLX_E_SYNTAX, "1:7", "the name of the graph");
    check_refused("graph f() { return } }", FLX_E_SYNTAX, "1:22", "'graph'");
    check_refused("kernel k() { }", FLX_E_SYNTAX, "1:1", "no graph");
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    CHECK(flx_parse(ctx, NULL, 0, NULL, &err) == NULL && strcmp(err.where, "text:1:1") == 0);
    CHECK(flx_parse(ctx, NULL, 3, NULL, &err) == NULL && err.code == FLX_E_USAGE);
    CHECK(flx_parse(NULL, "x", 1, NULL, &err) == NULL && err.code == FLX_E_USAGE);
    CHECK(flx_parse(ctx, "x", 1, NULL, NULL) == NULL);
    flx_context_free(ctx);
}

TEST(parse_missing_token_is_named_with_its_place)
{
    static const struct {
        const char *text, *position, *message;
    } rows[] = {
        {"graph f", "1:8", "'('"},
        {"graph f {", "1:9", "'('"},
        {"graph f(x) { return }", "1:10", "':'"},
        {"graph f(x:) { return }", "1:11", "a type"},
        {"graph f(x: f33[2]) { return }", "1:12", "a type"},
        {"graph f(x: f32) { return }", "1:15", "'['"},
        {"graph f(x: f32[2) { return }", "1:17", "']'"},
        {"graph f(x: f32[2] y: f32[]) { return }", "1:19", "')'"},
        {"graph f(: f32[]) { return }", "1:9", "a name"},
        {"graph f(,) { return }", "1:9", "a name"},
        {"graph f()", "1:10", "'{'"},
        {"graph f() {", "1:12", "a statement or 'return'"},
        {"graph f() { }", "1:13", "a statement or 'return'"},
        {"graph f() { 1 = 2 return }", "1:13", "a statement or 'return'"},
        {"graph f() { x 1 return }", "1:15", "'='"},
        {"graph f() { x = return }", "1:17", "not defined"},
        {"graph f() { x, = 1 return }", "1:16", "a name"},
        {"graph f() { x = add(1 2) return }", "1:23", "',' or ')'"},
        {"graph f() { x = add(1, 2 return }", "1:26", "',' or ')'"},
        {"graph f() { x = add(,1) return }", "1:21", "a value"},
        {"graph f() { x = add(1,,2) return }", "1:23", "a value"},
        {"graph f() { x = ) return }", "1:17", "a value"},
        {"graph f() { return 1 2 }", "1:22", "',' or '}'"},
        {"graph f() { return ,1 }", "1:20", "a value"},
        {"graph f() { return 1", "1:21", "',' or '}'"},
        {"graph f() { return iota(f32[2], axis=) }", "1:38", "the value of an attribute"},
        {"graph f() { return iota(f32[2], axis=$) }", "1:38", "the value of an attribute"},
        {"graph f() { x = \"abc\n\" return }", "1:17", "no end on its line"},
        {"graph f() {\n  x = 1\n  y = ;\n  return x }", "3:7", "';'"},
        {"graph f() { x = \x01 return }", "1:17", "0x01"},
        {"graph f() { x = \xff return }", "1:17", "0xff"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        flx_code code = strstr(rows[i].message, "not defined") ? FLX_E_NAME : FLX_E_SYNTAX;
        check_refused(rows[i].text, code, rows[i].position, rows[i].message);
        test_count_case();
    }
}

/* ---- Names ---- */

TEST(parse_names_like_ops_and_dtypes_are_names)
{
    check_accepted("graph exp(exp: f32[2], f32: f32[2]) { add = exp(exp) scan = add(add, f32) return add, scan }");
    check_accepted("graph f(pin: f32[], main: f32[], const: f32[]) { return pin, main, const }");
    check_accepted("graph a.b_1(_x: f32[], X9.: f32[]) { _1.2 = add(_x, X9.) return _1.2 }");
    check_accepted("graph f(x: f32[f32, none, add]) { return reshape(x, shape=[f32, none, add]) }");
    check_accepted("graph f() { return eye(n=(none), m=none*2) }");
}

TEST(parse_reserved_words_name_nothing)
{
    static const char *const words[] = {"graph", "kernel", "param", "return", "true", "false", "inf", "nan"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char text[100];
        flx_error err = {0};
        flx_context *ctx = flx_context_new(NULL);
        static const char *const forms[] = {"graph %s() { return }", "graph f(%s: f32[2]) { return }",
                                            "graph f() { %s = iota(f32[2]) return }",
                                            "graph f(x: f32[%s]) { return x }"};
        for (size_t k = 0; k < sizeof forms / sizeof forms[0]; k++) {
            size_t n = 0;
            for (const char *s = forms[k]; *s; s++) {
                if (*s == '%') {
                    strcpy(text + n, words[i]);
                    n += strlen(words[i]);
                    s++;
                } else {
                    text[n++] = *s;
                }
            }
            CHECK_MSG(flx_parse(ctx, text, n, "t", &err) == NULL && err.code == FLX_E_SYNTAX, "%.*s", (int)n, text);
            test_count_case();
        }
        flx_context_free(ctx);
    }
}

TEST(parse_name_is_defined_once_and_before_its_use)
{
    check_refused("graph f(x: f32[], x: f32[]) { return }", FLX_E_DUP_NAME, "1:19", "'x' is defined twice");
    check_refused("graph f(x: f32[]) { x = 1 return }", FLX_E_DUP_NAME, "1:21", "'x'");
    check_refused("graph f() { x = 1 x = 2 return }", FLX_E_DUP_NAME, "1:19", "'x'");
    check_refused("graph f(x: f32[4]) { v, v = top_k(x, k=1) return }", FLX_E_DUP_NAME, "1:25", "'v'");
    check_refused("graph f() { y = x x = 1 return y }", FLX_E_NAME, "1:17", "'x' is not defined");
    check_refused("graph f() { x = exp(x) return x }", FLX_E_NAME, "1:21", "'x' is not defined");
    check_refused("graph f() { return y }", FLX_E_NAME, "1:20", "'y' is not defined");
    check_refused("graph a(p: f32[]) { return p } graph b() { return p }", FLX_E_NAME, "1:51", "'p'");
}

TEST(parse_underscore_discards)
{
    check_prints("graph f(x: f32[4]) { _ = exp(x) _, i = top_k(x, k=1) _ = x _ = i return i }",
                 "graph f(x: f32[4]) {\n  v0 = exp(x)\n  v1, i = top_k(x, k=1, axis=0)\n  return i\n}\n");
    check_refused("graph f() { _ = 1 return _ }", FLX_E_NAME, "1:26", "'_'");
    check_prints("graph f(_: f32[]) { _ = exp(_) return _ }", "graph f(_: f32[]) {\n  v0 = exp(_)\n  return _\n}\n");
}

TEST(parse_alias_is_another_name_for_one_value)
{
    check_prints("graph f(x: f32[]) { a = exp(x) b = a c = b return c }",
                 "graph f(x: f32[]) {\n  c = exp(x)\n  return c\n}\n");
    check_prints("graph f(x: f32[]) { b = x c = b return c, b }",
                 "graph f(x: f32[]) {\n  c = x\n  b = x\n  return c, b\n}\n");
}

TEST(parse_pin_marks_values)
{
    check_prints("graph f(x: f32[4]) { pin a = exp(x) pin v, i = top_k(x, k=1) return i }",
                 "graph f(x: f32[4]) {\n  pin a = exp(x)\n  pin v, i = top_k(x, k=1, axis=0)\n  return i\n}\n");
    check_prints("graph f(x: f32[4]) { pin _ = x v, i = top_k(x, k=1) pin _ = i return v }",
                 "graph f(x: f32[4]) {\n  pin _ = x\n  v, i = top_k(x, k=1, axis=0)\n  pin _ = i\n  return v\n}\n");
    check_prints("graph f(x: f32[4]) { pin = exp(x) pin pin2 = pin return pin }",
                 "graph f(x: f32[4]) {\n  pin pin = exp(x)\n  return pin\n}\n");
}

/* ---- Outputs ---- */

TEST(parse_outputs_are_named_by_variable_or_position)
{
    static const struct {
        const char *returned, *names;
    } rows[] = {
        {"a", "a"},
        {"exp(a), a, log(a)", "out0 a out2"},
        {"a, a, a", "a a_2 a_3"},
        {"a, a_2, a", "a a_2 a_3"},
        {"a_2, a, a", "a_2 a a_3"},
        {"x, x, a", "x x_2 a"},
        {"out1, exp(a), out1", "out1 out1_2 out1_3"},
        {"1, 2", "out0 out1"},
        {"true, inf, nan, -1", "out0 out1 out2 out3"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[200] = "graph f(x: f32[2]) { a = neg(x) a_2 = abs(x) out1 = sin(x) return ";
        char found[100] = "";
        strcat(strcat(text, rows[i].returned), " }");
        flx_context *ctx = flx_context_new(NULL);
        flx_graph *g = graph_of(ctx, text);
        for (size_t k = 0; k < flx_graph_output_count(g); k++)
            strcat(strcat(found, k ? " " : ""), flx_graph_output_name(g, k));
        CHECK_EQ_STR(found, rows[i].names);
        check_round_trip(g);
        flx_graph_release(g);
        flx_context_free(ctx);
        test_count_case();
    }
}

/* ---- Calls ---- */

TEST(parse_nested_calls_have_one_result)
{
    check_accepted("graph f(x: f32[4]) { return add(mul(x, exp(x)), sub(neg(x), x)) }");
    check_refused("graph f(x: f32[4]) { return exp(top_k(x, k=1)) }", FLX_E_ARITY, "1:33", "one result, not 2");
    check_refused("graph f(x: f32[4]) { return top_k(x, k=1) }", FLX_E_ARITY, "1:29", "one result, not 2");
    check_refused("graph f(x: f32[4]) { v = top_k(x, k=1) return }", FLX_E_ARITY, "1:22", "1 name for 2 results");
    check_refused("graph f(x: f32[4]) { a, b, c = top_k(x, k=1) return }", FLX_E_ARITY, "1:22",
                  "3 names for 2 results");
    check_refused("graph f(x: f32[4]) { a, b = x return }", FLX_E_ARITY, "1:22", "2 names for 1 result");
}

TEST(parse_attributes_follow_operands_by_name)
{
    check_accepted("graph f(x: f32[4, 5]) { return reduce_sum(x, axes=[0], keep_dims=true) }");
    check_accepted("graph f(x: f32[4, 5]) { return reduce_sum(x, keep_dims=false, axes=[-1, 0],) }");
    check_accepted("graph f() { a = iota(type=f32[2]) b = iota(f32[3], axis=0) return a, b }");
    check_accepted("graph f() { return const(type=i8[2], data=[1, 2]) }");
    check_refused("graph f(x: f32[4]) { return softmax(axis=0, x) }", FLX_E_SYNTAX, "1:45", "operands come before");
    check_refused("graph f(x: f32[4]) { return softmax(x, axes=0) }", FLX_E_ATTRIBUTE, "1:40", "unknown attribute");
    check_refused("graph f(x: f32[4]) { return softmax(x, axis=0, axis=0) }", FLX_E_ATTRIBUTE, "1:29", "twice");
    check_refused("graph f(x: f32[4]) { return softmax(x, axis=true) }", FLX_E_ATTRIBUTE, "1:29", "an integer");
    check_refused("graph f(x: f32[4]) { return softmax(x, axis=1.5) }", FLX_E_ATTRIBUTE, "1:29", "an integer");
    check_refused("graph f(x: f32[4]) { return softmax(x, axis=[0]) }", FLX_E_ATTRIBUTE, "1:29", "an integer");
    check_refused("graph f(x: f32[4]) { return softmax(x, axis=\"0\") }", FLX_E_ATTRIBUTE, "1:29", "an integer");
    check_refused("graph f(x: f32[4]) { return softmax(x, axis=f32[2]) }", FLX_E_ATTRIBUTE, "1:29", "an integer");
    check_refused("graph f(x: f32[4]) { return cast(x) }", FLX_E_ATTRIBUTE, "1:29", "must be given");
    check_refused("graph f() { return exp() }", FLX_E_ARITY, "1:20", NULL);
    check_refused("graph f() { return input(f32[]) }", FLX_E_NAME, "1:20", "no op");
    check_refused("graph f() { return no_such(1) }", FLX_E_NAME, "1:20", "no op");
    check_refused("graph f() { return const(f32[], 1, 2) }", FLX_E_ARITY, "1:20", NULL);
}

TEST(parse_synonyms_print_as_the_name_they_stand_for)
{
    check_prints("graph f(x: bool[2]) { return logical_not(x) }",
                 "graph f(x: bool[2]) {\n  out0 = not(x)\n  return out0\n}\n");
}

TEST(parse_strings_keep_every_byte_but_zero)
{
    check_prints("graph f(x: f32[]) { return print(x, message=\"a\\\"b\\\\c\\nd\\te\\q \xc3\xa9 \x01 # } @\") }",
                 "graph f(x: f32[]) {\n  out0 = print(x, message=\"a\\\"b\\\\c\\nd\\teq \xc3\xa9 \x01 # } @\")\n"
                 "  return out0\n}\n");
    check_refused("graph f(x: f32[]) { return print(x, message=\"a\\\n\") }", FLX_E_SYNTAX, "1:45", NULL);
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    static const char zero[] = "graph f(x: f32[]) { return print(x, message=\"a\0b\") }";
    CHECK(flx_parse(ctx, zero, sizeof zero - 1, "t", &err) == NULL && err.code == FLX_E_SYNTAX);
    CHECK(strstr(err.message, "zero byte"));
    flx_context_free(ctx);
}

/* ---- Several graphs ---- */

TEST(parse_graphs_may_stand_in_any_order)
{
    check_accepted("graph main(p: bool[], x: f32[2]) { return if(p, x, then=@b, else=@a) }\n"
                   "graph a(x: f32[2]) { return exp(x) }\ngraph b(y: f32[2]) { return custom_fn(y, fwd_body=@a) }");
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = module_of(ctx, "graph c(x: f32[]) { return custom_fn(x, fwd_body=@a) }\n"
                                   "graph a(x: f32[]) { return exp(x) }\ngraph b(x: f32[]) { return x }");
    CHECK_EQ_U64(flx_module_count(m), 3);
    CHECK_EQ_STR(flx_graph_name(flx_module_graph(m, 0)), "c");
    CHECK_EQ_STR(flx_graph_name(flx_module_graph(m, 1)), "a");
    CHECK_EQ_STR(flx_graph_name(flx_module_main(m)), "b");
    CHECK(flx_node_graph(flx_module_graph(m, 0), 1, 0) == flx_module_graph(m, 1));
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(parse_graph_references_must_lead_somewhere)
{
    check_refused("graph f(x: f32[]) { return custom_fn(x, fwd_body=@g) }", FLX_E_NAME, "1:51", "no graph called 'g'");
    check_refused("graph f(x: f32[]) { return custom_fn(x, fwd_body=@f) }", FLX_E_NAME, "1:51", "calls itself");
    check_refused("graph f(x: f32[]) { return custom_fn(x, fwd_body=@g) }\n"
                  "graph g(x: f32[]) { return custom_fn(x, fwd_body=@f) }",
                  FLX_E_NAME, "2:51", "'f' calls itself");
    check_refused("graph f(x: f32[]) { return custom_fn(x, fwd_body=@) }", FLX_E_SYNTAX, "1:51", "the name of a graph");
    check_refused("graph f(x: f32[]) { return custom_fn(x, fwd_body=g) }", FLX_E_ATTRIBUTE, "1:28", "a graph");
    check_refused("graph f() { return } graph f() { return }", FLX_E_DUP_NAME, "1:28", "'f' is defined twice");
    check_refused("graph f(x: f32[]) { return case(1, x, branches=[@f]) }", FLX_E_NAME, "1:50", "calls itself");
    check_refused("graph a(x: f32[]) { return bad(x) }\ngraph f(x: f32[]) { return custom_fn(x, fwd_body=@a) }",
                  FLX_E_NAME, "1:28", "bad");
}

TEST(parse_graphs_nest_to_a_limit_in_either_order)
{
    enum { LIMIT = 64 };
    for (int depth = LIMIT; depth <= LIMIT + 1; depth++)
        for (int backwards = 0; backwards < 2; backwards++) {
            static char text[100 * 80];
            size_t n = 0;
            for (int k = 0; k < depth; k++) {
                int i = backwards ? depth - 1 - k : k;
                n += (size_t)sprintf(text + n,
                                     i ? "graph g%d(x: f32[]) { return custom_fn(x, fwd_body=@g%d) }\n"
                                       : "graph g%d(x: f32[]) { return x }\n",
                                     i, i - 1);
            }
            flx_error err = {0};
            flx_context *ctx = flx_context_new(NULL);
            flx_module *m = flx_parse(ctx, text, n, "t", &err);
            CHECK_MSG((m != NULL) == (depth == LIMIT), "depth %d: %s", depth, err.message);
            CHECK(m || err.code == FLX_E_SIZE);
            flx_module_free(m);
            flx_context_free(ctx);
        }
}

TEST(parse_param_marks_an_input)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = graph_of(ctx, "graph f(x: f32[], param w: f32[2], param b: f32[]) { return add(mul(x, w), b) }");
    CHECK(!flx_graph_input_is_param(g, 0) && flx_graph_input_is_param(g, 1) && flx_graph_input_is_param(g, 2));
    check_round_trip(g);
    flx_graph_release(g);
    flx_context_free(ctx);
    check_refused("graph f(param: f32[]) { return }", FLX_E_SYNTAX, "1:14", "a name");
    check_refused("graph f(param param x: f32[]) { return }", FLX_E_SYNTAX, "1:15", "reserved");
}
