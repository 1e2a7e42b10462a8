# SPDX-License-Identifier: Apache-2.0
# embed.cmake: files as arrays of a C source.
#   cmake -DOUT=FILE.c -DFOLDER=DIR -P embed.cmake
function(add_array out name)
    set(hex "")
    foreach(file ${ARGN})
        file(READ ${FOLDER}/${file} text HEX)
        string(APPEND hex "${text}")
    endforeach()
    string(LENGTH "${hex}" length)
    math(EXPR size "${length} / 2")
    string(REGEX REPLACE "(................................................................)" "\\1\n" hex "${hex}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
    file(APPEND ${out} "const unsigned char ${name}[] = {\n${hex}\n};\nconst size_t ${name}_size = ${size};\n")
endfunction()

file(WRITE ${OUT}.new "/* Made from src/report/page by src/report/embed.cmake. */\n#include \"report/page_files.h\"\n")
add_array(${OUT}.new flxi_page_style style.css)
add_array(${OUT}.new flxi_page_script charts.js graph.js page.js)
file(RENAME ${OUT}.new ${OUT})
