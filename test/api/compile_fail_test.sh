#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What must not compile, does not: a spawn without a nursery [N1001] [NCG-4], a nursery that is not
# one, misspelt options and arguments, names of tasks mixed up with numbers, results thrown away.
#
# Each case is a body of a function in two versions: one that is right and must compile, so that the
# other one fails for the reason it is about and no other; and one that must be refused with a
# message that contains the given words. Warnings that every project has on are errors here.
# One line per case and compiler: "ok   name" or "FAIL name" followed by what the compiler said.
#
#   test/api/compile_fail_test.sh [substring]      environment: CC="gcc clang" CXX="g++ clang++"
set -u
cd "$(dirname "$0")/../.." || exit 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
only=${1:-}

# try compiler language body: compiles it inside of a task's function.
try() {
    case $2 in
    c) options="-std=c11 -x c -Werror=incompatible-pointer-types -Werror=int-conversion" ;;
    *) options="-std=c++17 -x c++" ;;
    esac
    {
        echo '#include <kin/kin.h>'
        echo 'struct point { int x, y; };'
        echo 'int child(void *arg);'
        echo 'void wrong_child(void *arg);'
        echo 'int body(struct kin_nursery *n, struct kin_task_ref ref);'
        echo 'int body(struct kin_nursery *n, struct kin_task_ref ref)'
        printf '{\n    int rc = 0;\n    (void)ref;\n    (void)n;\n    %s\n    return rc;\n}\n' "$3"
    } >"$scratch/one"
    # shellcheck disable=SC2086 # the options are words
    "$1" $options -Wall -Wextra -Werror -Iinclude -O1 -c -o "$scratch/object" \
        "$scratch/one" >"$scratch/said" 2>&1
}

# refuse languages name right wrong words: for every compiler of these languages.
refuse() {
    for language in $1; do
        case $language in
        c) compilers=${CC:-gcc clang} ;;
        *) compilers=${CXX:-g++ clang++} ;;
        esac
        for compiler in $compilers; do
            name="$2_by_$compiler"
            case "$name" in
            *"$only"*) ;;
            *) continue ;;
            esac
            if ! command -v "$compiler" >/dev/null; then
                echo "skip $name no $compiler"
            elif ! try "$compiler" "$language" "$3"; then
                echo "FAIL $name: the right version is refused"
                sed 's/^/    | /' "$scratch/said"
                failed=1
            elif try "$compiler" "$language" "$4"; then
                echo "FAIL $name: it compiles"
                failed=1
            elif ! grep -Eq -- "$5" "$scratch/said"; then
                echo "FAIL $name: refused for another reason"
                sed 's/^/    | /' "$scratch/said"
                failed=1
            else
                echo "ok   $name"
            fi
        done
    done
}

# ---- a spawn needs a nursery ----

refuse 'c c++' a_spawn_without_a_nursery \
    'rc = kin_spawn(n, child, 0);' \
    'rc = kin_spawn(child, 0);' \
    'too few arguments|no matching function|incompatible|cannot convert'
refuse 'c c++' a_spawn_into_something_else \
    'rc = kin_spawn(n, child, 0);' \
    'rc = kin_spawn(&ref, child, 0);' \
    'incompatible|cannot convert|no matching function'
refuse 'c c++' a_spawn_into_a_nursery_by_value \
    'rc = kin_spawn(n, child, 0);' \
    'rc = kin_spawn(*n, child, 0);' \
    'incompatible type|cannot convert|no matching function|incompatible'
refuse 'c c++' a_spawn_into_a_number \
    'rc = kin_spawn(n, child, 0);' \
    'rc = kin_spawn(1, child, 0);' \
    'integer|invalid conversion|no matching function'
refuse 'c c++' a_spawn_into_a_constant_nursery \
    'struct kin_nursery *one = n; rc = kin_spawn(one, child, 0);' \
    'const struct kin_nursery *one = n; rc = kin_spawn(one, child, 0);' \
    'discards|qualifier|invalid conversion|no matching function'
refuse 'c c++' a_child_that_returns_nothing \
    'rc = kin_spawn(n, child, 0);' \
    'rc = kin_spawn(n, wrong_child, 0);' \
    'incompatible|invalid conversion|no matching function'
refuse 'c c++' a_copy_without_its_size \
    'int x = 0; rc = kin_spawn_copy(n, child, &x, sizeof x);' \
    'int x = 0; rc = kin_spawn_copy(n, child, &x);' \
    'too few arguments|no matching function'
refuse 'c c++' a_nursery_without_its_struct_keyword_hides_nothing \
    'struct kin_nursery *one = n; (void)one;' \
    'int kin_nursery = 0; kin_nursery *one = n; (void)one;' \
    'undeclared|not declared|invalid operands|was not'

# ---- misspelt ----

refuse 'c' a_misspelt_option_of_a_nursery \
    'KIN_NURSERY(own, .deadline = 5); rc = kin_nursery_join(&own, 0);' \
    'KIN_NURSERY(own, .dedline = 5); rc = kin_nursery_join(&own, 0);' \
    'dedline'
refuse 'c' a_misspelt_argument \
    'rc = kin_spawn_copy(n, child, KIN_ARGS(struct point, .x = 1, .y = 2));' \
    'rc = kin_spawn_copy(n, child, KIN_ARGS(struct point, .x = 1, .z = 2));' \
    "'z'|‘z’"
refuse 'c c++' a_text_that_does_not_fit_its_values \
    'if (rc) kin_panic("%d", 1);' \
    'if (rc) kin_panic("%d", "one");' \
    'format'

# ---- names are no numbers ----

refuse 'c c++' a_number_for_the_name_of_a_task \
    'rc = kin_task_cancel(ref);' \
    'rc = kin_task_cancel(5);' \
    'incompatible type|could not convert|no matching function|passing .int. to parameter'
refuse 'c c++' a_nursery_for_the_name_of_a_task \
    'rc = kin_task_join(n, ref, 0, KIN_NEVER);' \
    'rc = kin_task_join(n, *n, 0, KIN_NEVER);' \
    'incompatible type|could not convert|no matching function|passing .struct kin_nursery'
refuse 'c c++' a_wait_for_a_child_without_its_nursery \
    'rc = kin_task_join(n, ref, 0, KIN_NEVER);' \
    'rc = kin_task_join(ref, 0, KIN_NEVER);' \
    'too few arguments|no matching function|incompatible|cannot convert'

# ---- results are not thrown away ----

refuse 'c c++' a_spawn_whose_answer_is_thrown_away \
    'kin_ignore(kin_spawn(n, child, 0));' \
    'kin_spawn(n, child, 0);' \
    'unused.result|warn_unused_result|unused-result'
refuse 'c c++' a_join_whose_answer_is_thrown_away \
    'kin_ignore(kin_nursery_join(n, 0));' \
    'kin_nursery_join(n, 0);' \
    'unused.result|warn_unused_result|unused-result'
refuse 'c c++' a_wait_for_a_child_whose_answer_is_thrown_away \
    'kin_ignore(kin_task_join(n, ref, 0, 0));' \
    'kin_task_join(n, ref, 0, 0);' \
    'unused.result|warn_unused_result|unused-result'
refuse 'c c++' an_open_whose_answer_is_thrown_away \
    'kin_ignore(kin_nursery_open(n, 0));' \
    'kin_nursery_open(n, 0);' \
    'unused.result|warn_unused_result|unused-result'

exit "$failed"
