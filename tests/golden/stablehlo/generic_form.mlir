//$ flx run FILE --in arg0=iota
//$ flx run - --in arg0=iota < FILE
//$ sed 1,4d FILE | flx run - --in arg0=iota
//$ (echo "#map = affine_map<(d0) -> (d0)>"; echo "// note"; cat FILE) | flx run - --in arg0=iota
// Every operation in its generic form, the module and the function too; standard input is known by its first word.
"builtin.module"() <{sym_name = "generic"}> ({
  "func.func"() <{function_type = (tensor<4xf32>) -> tensor<f32>, sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<4xf32>):
    %0 = "stablehlo.constant"() <{value = dense<1.0> : tensor<f32>}> : () -> tensor<f32>
    %1 = "stablehlo.reduce"(%arg0, %0) <{dimensions = array<i64: 0>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %2 = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%2) : (tensor<f32>) -> ()
    }) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    "func.return"(%1) : (tensor<f32>) -> ()
  }) : () -> ()
}) : () -> ()
//> out0: f32[] = 7
//> out0: f32[] = 7
//> out0: f32[] = 7
//> out0: f32[] = 7
