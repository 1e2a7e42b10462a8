//$ flx grad FILE --wrt arg0 | flx run - --device ref --in arg0=0.4,1.3
//$ flx gradcheck FILE --in arg0=0.4,1.3 | grep -o "derivatives agree"
// The generalised exponential integral of order 3, below 1 by a series and above by a continued fraction, each of which
// has no finite derivative where the other one is selected. Written by JAX, whose gradient is -0.389368, -0.0964456.
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2xf64>) -> (tensor<f64> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<3> : tensor<i64>
    %0 = call @expn(%c, %arg0) : (tensor<i64>, tensor<2xf64>) -> tensor<2xf64>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
    return %1 : tensor<f64>
  }
  func.func private @expn(%arg0: tensor<i64>, %arg1: tensor<2xf64>) -> tensor<2xf64> {
    %0 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<f64>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %1 = stablehlo.compare LT, %0, %cst, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %3 = stablehlo.compare LT, %arg1, %2, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
    %4 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<i1>) -> tensor<2xi1>
    %5 = stablehlo.or %4, %3 : tensor<2xi1>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %7 = stablehlo.compare EQ, %arg1, %6, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<f64>
    %8 = stablehlo.compare LT, %0, %cst_2, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %9 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<i1>) -> tensor<2xi1>
    %10 = stablehlo.and %7, %9 : tensor<2xi1>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %11 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %12 = stablehlo.compare EQ, %arg1, %11, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
    %cst_4 = stablehlo.constant dense<2.000000e+00> : tensor<f64>
    %13 = stablehlo.compare GE, %0, %cst_4, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %14 = stablehlo.broadcast_in_dim %13, dims = [] : (tensor<i1>) -> tensor<2xi1>
    %15 = stablehlo.and %12, %14 : tensor<2xi1>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %16 = stablehlo.compare EQ, %0, %cst_5, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %17 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %18 = stablehlo.compare GE, %arg1, %17, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
    %19 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<i1>) -> tensor<2xi1>
    %20 = stablehlo.and %19, %18 : tensor<2xi1>
    %cst_7 = stablehlo.constant dense<5.000000e+03> : tensor<f64>
    %21 = stablehlo.compare GE, %0, %cst_7, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %22 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %23 = stablehlo.compare GT, %arg1, %22, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
    %cst_9 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %24 = stablehlo.compare EQ, %0, %cst_9, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %25 = stablehlo.add %0, %0 : tensor<f64>
    %26 = call @_where(%24, %25, %0) : (tensor<i1>, tensor<f64>, tensor<f64>) -> tensor<f64>
    %cst_10 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %27 = stablehlo.divide %cst_10, %26 : tensor<f64>
    %28 = stablehlo.negate %arg1 : tensor<2xf64>
    %29 = stablehlo.exponential %28 : tensor<2xf64>
    %30 = stablehlo.divide %29, %arg1 : tensor<2xf64>
    %31 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<2xi1>) -> tensor<2x1xi1>
    %32 = stablehlo.broadcast_in_dim %10, dims = [0] : (tensor<2xi1>) -> tensor<2x1xi1>
    %33 = stablehlo.broadcast_in_dim %15, dims = [0] : (tensor<2xi1>) -> tensor<2x1xi1>
    %34 = stablehlo.broadcast_in_dim %20, dims = [0] : (tensor<2xi1>) -> tensor<2x1xi1>
    %35 = stablehlo.broadcast_in_dim %21, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %36 = stablehlo.broadcast_in_dim %23, dims = [0] : (tensor<2xi1>) -> tensor<2x1xi1>
    %37 = stablehlo.broadcast_in_dim %35, dims = [1] : (tensor<1xi1>) -> tensor<2x1xi1>
    %38 = stablehlo.concatenate %31, %32, %33, %34, %37, %36, dim = 1 : (tensor<2x1xi1>, tensor<2x1xi1>, tensor<2x1xi1>, tensor<2x1xi1>, tensor<2x1xi1>, tensor<2x1xi1>) -> tensor<2x6xi1>
    %cst_11 = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %cst_12 = stablehlo.constant dense<0x7FF0000000000000> : tensor<f64>
    %39 = call @_piecewise(%arg1, %38, %cst_11, %cst_12, %27, %30, %0) : (tensor<2xf64>, tensor<2x6xi1>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<2xf64>, tensor<f64>) -> tensor<2xf64>
    return %39 : tensor<2xf64>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<f64>, %arg2: tensor<f64>) -> tensor<f64> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<f64>
    return %0 : tensor<f64>
  }
  func.func private @_piecewise(%arg0: tensor<2xf64>, %arg1: tensor<2x6xi1>, %arg2: tensor<f64>, %arg3: tensor<f64>, %arg4: tensor<f64>, %arg5: tensor<2xf64>, %arg6: tensor<f64>) -> tensor<2xf64> {
    %c = stablehlo.constant dense<false> : tensor<i1>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<1xi1>) -> tensor<2x1xi1>
    %2 = stablehlo.concatenate %1, %arg1, dim = 1 : (tensor<2x1xi1>, tensor<2x6xi1>) -> tensor<2x7xi1>
    %3 = call @cumsum(%2) : (tensor<2x7xi1>) -> tensor<2x7xi64>
    %4 = call @argmax(%3) : (tensor<2x7xi64>) -> tensor<2xi64>
    %5 = stablehlo.convert %4 : (tensor<2xi64>) -> tensor<2xi32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<6> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %7 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %8 = stablehlo.clamp %6, %5, %7 : tensor<2xi32>
    %9 = stablehlo.broadcast_in_dim %arg6, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %10 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %11 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %12 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %13 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %14 = stablehlo.compare EQ, %8, %13, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %15 = stablehlo.select %14, %9, %9 : tensor<2xi1>, tensor<2xf64>
    %16 = stablehlo.select %14, %arg0, %arg0 : tensor<2xi1>, tensor<2xf64>
    %17 = stablehlo.log %16 : tensor<2xf64>
    %cst = stablehlo.constant dense<-0.57721566490153287> : tensor<f64>
    %18 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %19 = stablehlo.subtract %18, %17 : tensor<2xf64>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %20 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %21:3 = stablehlo.while(%iterArg = %20, %iterArg_38 = %15, %iterArg_39 = %19) : tensor<2xf64>, tensor<2xf64>, tensor<2xf64>
    cond {
      %129 = stablehlo.compare LT, %iterArg, %iterArg_38, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
      %c_40 = stablehlo.constant dense<false> : tensor<i1>
      %130 = stablehlo.reduce(%129 init: %c_40) applies stablehlo.or across dimensions = [0] : (tensor<2xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %130 : tensor<i1>
    } do {
      %cst_40 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
      %129 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %130 = stablehlo.add %iterArg, %129 : tensor<2xf64>
      %cst_41 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
      %131 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %132 = stablehlo.divide %131, %iterArg : tensor<2xf64>
      %133 = stablehlo.add %iterArg_39, %132 : tensor<2xf64>
      %134 = stablehlo.compare LT, %iterArg, %iterArg_38, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
      %135 = stablehlo.broadcast_in_dim %134, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %136 = stablehlo.select %135, %130, %iterArg : tensor<2xi1>, tensor<2xf64>
      %137 = stablehlo.broadcast_in_dim %134, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %138 = stablehlo.select %137, %iterArg_38, %iterArg_38 : tensor<2xi1>, tensor<2xf64>
      %139 = stablehlo.broadcast_in_dim %134, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %140 = stablehlo.select %139, %133, %iterArg_39 : tensor<2xi1>, tensor<2xf64>
      stablehlo.return %136, %138, %140 : tensor<2xf64>, tensor<2xf64>, tensor<2xf64>
    }
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %22 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %23 = stablehlo.compare EQ, %15, %22, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
    %cst_5 = stablehlo.constant dense<2.000000e+00> : tensor<f64>
    %24 = call @_where_1(%23, %cst_5, %15) : (tensor<2xi1>, tensor<f64>, tensor<2xf64>) -> tensor<2xf64>
    %25 = stablehlo.negate %16 : tensor<2xf64>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %26 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %27 = stablehlo.subtract %26, %15 : tensor<2xf64>
    %cst_7 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %28 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %29 = stablehlo.compare EQ, %15, %28, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %30 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %31 = stablehlo.subtract %30, %24 : tensor<2xf64>
    %cst_9 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %32 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %33 = stablehlo.divide %32, %31 : tensor<2xf64>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %34 = call @_where_1(%29, %cst_10, %33) : (tensor<2xi1>, tensor<f64>, tensor<2xf64>) -> tensor<2xf64>
    %cst_11 = stablehlo.constant dense<0x7FF0000000000000> : tensor<f64>
    %35 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %36 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %cst_13 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %37 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %38:7 = stablehlo.while(%iterArg = %25, %iterArg_38 = %34, %iterArg_39 = %27, %iterArg_40 = %35, %iterArg_41 = %16, %iterArg_42 = %36, %iterArg_43 = %37) : tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>
    cond {
      %cst_44 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
      %129 = stablehlo.broadcast_in_dim %cst_44, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %130 = stablehlo.compare GT, %iterArg_41, %129, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
      %131 = stablehlo.convert %iterArg_40 : tensor<2xf64>
      %cst_45 = stablehlo.constant dense<2.2204460492503131E-16> : tensor<f64>
      %132 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %133 = stablehlo.compare GT, %131, %132, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
      %134 = stablehlo.and %130, %133 : tensor<2xi1>
      %c_46 = stablehlo.constant dense<false> : tensor<i1>
      %135 = stablehlo.reduce(%134 init: %c_46) applies stablehlo.or across dimensions = [0] : (tensor<2xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %135 : tensor<i1>
    } do {
      %cst_44 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
      %129 = stablehlo.broadcast_in_dim %cst_44, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %130 = stablehlo.add %iterArg_42, %129 : tensor<2xf64>
      %131 = stablehlo.divide %iterArg, %130 : tensor<2xf64>
      %132 = stablehlo.multiply %iterArg_43, %131 : tensor<2xf64>
      %cst_45 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
      %133 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %134 = stablehlo.add %iterArg_39, %133 : tensor<2xf64>
      %cst_46 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
      %135 = stablehlo.broadcast_in_dim %cst_46, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %136 = stablehlo.compare NE, %134, %135, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
      %137 = stablehlo.divide %132, %134 : tensor<2xf64>
      %cst_47 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
      %138 = func.call @_where_2(%136, %137, %cst_47) : (tensor<2xi1>, tensor<2xf64>, tensor<f64>) -> tensor<2xf64>
      %139 = stablehlo.add %iterArg_38, %138 : tensor<2xf64>
      %cst_48 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
      %140 = stablehlo.broadcast_in_dim %cst_48, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %141 = stablehlo.compare NE, %139, %140, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
      %142 = stablehlo.divide %132, %139 : tensor<2xf64>
      %143 = stablehlo.abs %142 : tensor<2xf64>
      %cst_49 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
      %144 = func.call @_where_2(%141, %143, %cst_49) : (tensor<2xi1>, tensor<2xf64>, tensor<f64>) -> tensor<2xf64>
      %cst_50 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
      %145 = stablehlo.broadcast_in_dim %cst_50, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %146 = stablehlo.compare GT, %iterArg_41, %145, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
      %147 = stablehlo.convert %iterArg_40 : tensor<2xf64>
      %cst_51 = stablehlo.constant dense<2.2204460492503131E-16> : tensor<f64>
      %148 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %149 = stablehlo.compare GT, %147, %148, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
      %150 = stablehlo.and %146, %149 : tensor<2xi1>
      %151 = stablehlo.broadcast_in_dim %150, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %152 = stablehlo.select %151, %139, %iterArg_38 : tensor<2xi1>, tensor<2xf64>
      %153 = stablehlo.broadcast_in_dim %150, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %154 = stablehlo.select %153, %134, %iterArg_39 : tensor<2xi1>, tensor<2xf64>
      %155 = stablehlo.broadcast_in_dim %150, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %156 = stablehlo.select %155, %144, %iterArg_40 : tensor<2xi1>, tensor<2xf64>
      %157 = stablehlo.broadcast_in_dim %150, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %158 = stablehlo.select %157, %iterArg_41, %iterArg_41 : tensor<2xi1>, tensor<2xf64>
      %159 = stablehlo.broadcast_in_dim %150, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %160 = stablehlo.select %159, %130, %iterArg_42 : tensor<2xi1>, tensor<2xf64>
      %161 = stablehlo.broadcast_in_dim %150, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %162 = stablehlo.select %161, %132, %iterArg_43 : tensor<2xi1>, tensor<2xf64>
      stablehlo.return %iterArg, %152, %154, %156, %158, %160, %162 : tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>
    }
    %cst_14 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %39 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %40 = stablehlo.subtract %15, %39 : tensor<2xf64>
    %41 = stablehlo.power %25, %40 : tensor<2xf64>
    %42 = stablehlo.multiply %41, %21#2 : tensor<2xf64>
    %43 = chlo.lgamma %15 : tensor<2xf64> -> tensor<2xf64>
    %44 = stablehlo.exponential %43 : tensor<2xf64>
    %45 = stablehlo.divide %42, %44 : tensor<2xf64>
    %46 = stablehlo.subtract %45, %38#1 : tensor<2xf64>
    %c_15 = stablehlo.constant dense<1> : tensor<i32>
    %47 = stablehlo.broadcast_in_dim %c_15, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %48 = stablehlo.compare EQ, %8, %47, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %49 = stablehlo.select %48, %10, %10 : tensor<2xi1>, tensor<2xf64>
    %50 = stablehlo.convert %49 : tensor<2xf64>
    %c_16 = stablehlo.constant dense<2> : tensor<i32>
    %51 = stablehlo.broadcast_in_dim %c_16, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %52 = stablehlo.compare EQ, %8, %51, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %53 = stablehlo.select %52, %11, %11 : tensor<2xi1>, tensor<2xf64>
    %54 = stablehlo.convert %53 : tensor<2xf64>
    %c_17 = stablehlo.constant dense<3> : tensor<i32>
    %55 = stablehlo.broadcast_in_dim %c_17, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %56 = stablehlo.compare EQ, %8, %55, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %57 = stablehlo.select %56, %12, %12 : tensor<2xi1>, tensor<2xf64>
    %c_18 = stablehlo.constant dense<4> : tensor<i32>
    %58 = stablehlo.broadcast_in_dim %c_18, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %59 = stablehlo.compare EQ, %8, %58, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %60 = stablehlo.select %59, %arg5, %arg5 : tensor<2xi1>, tensor<2xf64>
    %c_19 = stablehlo.constant dense<5> : tensor<i32>
    %61 = stablehlo.broadcast_in_dim %c_19, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %62 = stablehlo.compare EQ, %8, %61, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %63 = stablehlo.select %62, %9, %9 : tensor<2xi1>, tensor<2xf64>
    %64 = stablehlo.select %62, %arg0, %arg0 : tensor<2xi1>, tensor<2xf64>
    %65 = stablehlo.add %64, %63 : tensor<2xf64>
    %66 = stablehlo.multiply %65, %65 : tensor<2xf64>
    %cst_20 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %67 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %68 = stablehlo.divide %67, %66 : tensor<2xf64>
    %69 = stablehlo.multiply %68, %63 : tensor<2xf64>
    %cst_21 = stablehlo.constant dense<6.000000e+00> : tensor<f64>
    %70 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %71 = stablehlo.multiply %70, %64 : tensor<2xf64>
    %72 = stablehlo.multiply %71, %64 : tensor<2xf64>
    %cst_22 = stablehlo.constant dense<8.000000e+00> : tensor<f64>
    %73 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %74 = stablehlo.multiply %73, %63 : tensor<2xf64>
    %75 = stablehlo.multiply %74, %64 : tensor<2xf64>
    %76 = stablehlo.subtract %72, %75 : tensor<2xf64>
    %77 = stablehlo.multiply %63, %63 : tensor<2xf64>
    %78 = stablehlo.add %76, %77 : tensor<2xf64>
    %79 = stablehlo.multiply %69, %78 : tensor<2xf64>
    %cst_23 = stablehlo.constant dense<2.000000e+00> : tensor<f64>
    %80 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %81 = stablehlo.multiply %80, %64 : tensor<2xf64>
    %82 = stablehlo.subtract %63, %81 : tensor<2xf64>
    %83 = stablehlo.multiply %63, %82 : tensor<2xf64>
    %84 = stablehlo.add %79, %83 : tensor<2xf64>
    %85 = stablehlo.multiply %68, %84 : tensor<2xf64>
    %86 = stablehlo.add %85, %63 : tensor<2xf64>
    %87 = stablehlo.multiply %68, %86 : tensor<2xf64>
    %cst_24 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %88 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %89 = stablehlo.add %87, %88 : tensor<2xf64>
    %90 = stablehlo.negate %64 : tensor<2xf64>
    %91 = stablehlo.exponential %90 : tensor<2xf64>
    %92 = stablehlo.multiply %89, %91 : tensor<2xf64>
    %93 = stablehlo.divide %92, %65 : tensor<2xf64>
    %c_25 = stablehlo.constant dense<6> : tensor<i32>
    %94 = stablehlo.broadcast_in_dim %c_25, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %95 = stablehlo.compare EQ, %8, %94, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %96 = stablehlo.select %95, %9, %9 : tensor<2xi1>, tensor<2xf64>
    %97 = stablehlo.select %95, %arg0, %arg0 : tensor<2xi1>, tensor<2xf64>
    %98 = stablehlo.add %97, %96 : tensor<2xf64>
    %99 = stablehlo.add %97, %96 : tensor<2xf64>
    %cst_26 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %100 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %101 = stablehlo.divide %100, %99 : tensor<2xf64>
    %cst_27 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %102 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %cst_28 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %103 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %cst_29 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %104 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %105 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %cst_31 = stablehlo.constant dense<0x7FF0000000000000> : tensor<f64>
    %106 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %107:10 = stablehlo.while(%iterArg = %96, %iterArg_38 = %101, %iterArg_39 = %102, %iterArg_40 = %103, %iterArg_41 = %104, %iterArg_42 = %98, %iterArg_43 = %97, %iterArg_44 = %105, %iterArg_45 = %106, %iterArg_46 = %97) : tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>
    cond {
      %cst_47 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
      %129 = stablehlo.broadcast_in_dim %cst_47, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %130 = stablehlo.compare GT, %iterArg_46, %129, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
      %cst_48 = stablehlo.constant dense<2.2204460492503131E-16> : tensor<f64>
      %131 = stablehlo.broadcast_in_dim %cst_48, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %132 = stablehlo.compare GT, %iterArg_45, %131, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
      %133 = stablehlo.and %130, %132 : tensor<2xi1>
      %c_49 = stablehlo.constant dense<false> : tensor<i1>
      %134 = stablehlo.reduce(%133 init: %c_49) applies stablehlo.or across dimensions = [0] : (tensor<2xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %134 : tensor<i1>
    } do {
      %cst_47 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
      %129 = stablehlo.broadcast_in_dim %cst_47, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %130 = stablehlo.add %iterArg_39, %129 : tensor<2xf64>
      %cst_48 = stablehlo.constant dense<2.000000e+00> : tensor<f64>
      %131 = func.call @remainder(%130, %cst_48) : (tensor<2xf64>, tensor<f64>) -> tensor<2xf64>
      %cst_49 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
      %132 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %133 = stablehlo.compare EQ, %131, %132, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
      %cst_50 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
      %134 = func.call @_where_3(%133, %cst_50, %iterArg_46) : (tensor<2xi1>, tensor<f64>, tensor<2xf64>) -> tensor<2xf64>
      %cst_51 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
      %135 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %136 = stablehlo.subtract %130, %135 : tensor<2xf64>
      %cst_52 = stablehlo.constant dense<2.000000e+00> : tensor<f64>
      %137 = stablehlo.broadcast_in_dim %cst_52, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %138 = stablehlo.divide %136, %137 : tensor<2xf64>
      %139 = stablehlo.add %iterArg, %138 : tensor<2xf64>
      %cst_53 = stablehlo.constant dense<2.000000e+00> : tensor<f64>
      %140 = stablehlo.broadcast_in_dim %cst_53, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %141 = stablehlo.divide %130, %140 : tensor<2xf64>
      %142 = func.call @_where_4(%133, %139, %141) : (tensor<2xi1>, tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>
      %143 = stablehlo.multiply %iterArg_40, %134 : tensor<2xf64>
      %144 = stablehlo.multiply %iterArg_41, %142 : tensor<2xf64>
      %145 = stablehlo.add %143, %144 : tensor<2xf64>
      %146 = stablehlo.multiply %iterArg_42, %134 : tensor<2xf64>
      %147 = stablehlo.multiply %iterArg_43, %142 : tensor<2xf64>
      %148 = stablehlo.add %146, %147 : tensor<2xf64>
      %cst_54 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
      %149 = stablehlo.broadcast_in_dim %cst_54, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %150 = stablehlo.compare NE, %148, %149, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
      %151 = stablehlo.divide %145, %148 : tensor<2xf64>
      %152 = func.call @_where_4(%150, %151, %iterArg_44) : (tensor<2xi1>, tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>
      %153 = stablehlo.subtract %iterArg_38, %152 : tensor<2xf64>
      %154 = stablehlo.divide %153, %152 : tensor<2xf64>
      %155 = stablehlo.abs %154 : tensor<2xf64>
      %cst_55 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
      %156 = func.call @_where_2(%150, %155, %cst_55) : (tensor<2xi1>, tensor<2xf64>, tensor<f64>) -> tensor<2xf64>
      %157 = func.call @_where_4(%150, %152, %iterArg_38) : (tensor<2xi1>, tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>
      %158 = stablehlo.abs %145 : tensor<2xf64>
      %cst_56 = stablehlo.constant dense<1.4411518807585587E+17> : tensor<f64>
      %159 = stablehlo.broadcast_in_dim %cst_56, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %160 = stablehlo.compare GT, %158, %159, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
      %cst_57 = stablehlo.constant dense<1.4411518807585587E+17> : tensor<f64>
      %161 = stablehlo.broadcast_in_dim %cst_57, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %162 = stablehlo.divide %145, %161 : tensor<2xf64>
      %163 = func.call @_where_4(%160, %162, %145) : (tensor<2xi1>, tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>
      %cst_58 = stablehlo.constant dense<1.4411518807585587E+17> : tensor<f64>
      %164 = stablehlo.broadcast_in_dim %cst_58, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %165 = stablehlo.divide %iterArg_40, %164 : tensor<2xf64>
      %166 = func.call @_where_4(%160, %165, %iterArg_40) : (tensor<2xi1>, tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>
      %cst_59 = stablehlo.constant dense<1.4411518807585587E+17> : tensor<f64>
      %167 = stablehlo.broadcast_in_dim %cst_59, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %168 = stablehlo.divide %148, %167 : tensor<2xf64>
      %169 = func.call @_where_4(%160, %168, %148) : (tensor<2xi1>, tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>
      %cst_60 = stablehlo.constant dense<1.4411518807585587E+17> : tensor<f64>
      %170 = stablehlo.broadcast_in_dim %cst_60, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %171 = stablehlo.divide %iterArg_42, %170 : tensor<2xf64>
      %172 = func.call @_where_4(%160, %171, %iterArg_42) : (tensor<2xi1>, tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>
      %cst_61 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
      %173 = stablehlo.broadcast_in_dim %cst_61, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %174 = stablehlo.compare GT, %iterArg_46, %173, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
      %cst_62 = stablehlo.constant dense<2.2204460492503131E-16> : tensor<f64>
      %175 = stablehlo.broadcast_in_dim %cst_62, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %176 = stablehlo.compare GT, %iterArg_45, %175, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
      %177 = stablehlo.and %174, %176 : tensor<2xi1>
      %178 = stablehlo.broadcast_in_dim %177, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %179 = stablehlo.select %178, %157, %iterArg_38 : tensor<2xi1>, tensor<2xf64>
      %180 = stablehlo.broadcast_in_dim %177, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %181 = stablehlo.select %180, %130, %iterArg_39 : tensor<2xi1>, tensor<2xf64>
      %182 = stablehlo.broadcast_in_dim %177, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %183 = stablehlo.select %182, %163, %iterArg_40 : tensor<2xi1>, tensor<2xf64>
      %184 = stablehlo.broadcast_in_dim %177, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %185 = stablehlo.select %184, %166, %iterArg_41 : tensor<2xi1>, tensor<2xf64>
      %186 = stablehlo.broadcast_in_dim %177, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %187 = stablehlo.select %186, %169, %iterArg_42 : tensor<2xi1>, tensor<2xf64>
      %188 = stablehlo.broadcast_in_dim %177, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %189 = stablehlo.select %188, %172, %iterArg_43 : tensor<2xi1>, tensor<2xf64>
      %190 = stablehlo.broadcast_in_dim %177, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %191 = stablehlo.select %190, %152, %iterArg_44 : tensor<2xi1>, tensor<2xf64>
      %192 = stablehlo.broadcast_in_dim %177, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %193 = stablehlo.select %192, %156, %iterArg_45 : tensor<2xi1>, tensor<2xf64>
      %194 = stablehlo.broadcast_in_dim %177, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %195 = stablehlo.select %194, %iterArg_46, %iterArg_46 : tensor<2xi1>, tensor<2xf64>
      stablehlo.return %iterArg, %179, %181, %183, %185, %187, %189, %191, %193, %195 : tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>
    }
    %108 = stablehlo.negate %97 : tensor<2xf64>
    %109 = stablehlo.exponential %108 : tensor<2xf64>
    %110 = stablehlo.multiply %107#1, %109 : tensor<2xf64>
    %c_32 = stablehlo.constant dense<3> : tensor<i32>
    %111 = stablehlo.broadcast_in_dim %c_32, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %112 = stablehlo.compare LT, %8, %111, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %c_33 = stablehlo.constant dense<1> : tensor<i32>
    %113 = stablehlo.broadcast_in_dim %c_33, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %114 = stablehlo.compare LT, %8, %113, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %c_34 = stablehlo.constant dense<2> : tensor<i32>
    %115 = stablehlo.broadcast_in_dim %c_34, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %116 = stablehlo.compare LT, %8, %115, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %117 = stablehlo.select %116, %50, %54 : tensor<2xi1>, tensor<2xf64>
    %118 = stablehlo.select %114, %46, %117 : tensor<2xi1>, tensor<2xf64>
    %c_35 = stablehlo.constant dense<5> : tensor<i32>
    %119 = stablehlo.broadcast_in_dim %c_35, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %120 = stablehlo.compare LT, %8, %119, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %c_36 = stablehlo.constant dense<4> : tensor<i32>
    %121 = stablehlo.broadcast_in_dim %c_36, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %122 = stablehlo.compare LT, %8, %121, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %123 = stablehlo.select %122, %57, %60 : tensor<2xi1>, tensor<2xf64>
    %c_37 = stablehlo.constant dense<6> : tensor<i32>
    %124 = stablehlo.broadcast_in_dim %c_37, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %125 = stablehlo.compare LT, %8, %124, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %126 = stablehlo.select %125, %93, %110 : tensor<2xi1>, tensor<2xf64>
    %127 = stablehlo.select %120, %123, %126 : tensor<2xi1>, tensor<2xf64>
    %128 = stablehlo.select %112, %118, %127 : tensor<2xi1>, tensor<2xf64>
    return %128 : tensor<2xf64>
  }
  func.func private @cumsum(%arg0: tensor<2x7xi1>) -> tensor<2x7xi64> {
    %0 = stablehlo.convert %arg0 : (tensor<2x7xi1>) -> tensor<2x7xi64>
    %1 = call @cumsum_0(%0) : (tensor<2x7xi64>) -> tensor<2x7xi64>
    return %1 : tensor<2x7xi64>
  }
  func.func private @cumsum_0(%arg0: tensor<2x7xi64>) -> tensor<2x7xi64> {
    %c = stablehlo.constant dense<0> : tensor<i64>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<i64>
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{base_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [6, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 1, 7>, window_strides = array<i64: 1, 1>}> ({
    ^bb0(%arg1: tensor<i64>, %arg2: tensor<i64>):
      %2 = stablehlo.add %arg1, %arg2 : tensor<i64>
      stablehlo.return %2 : tensor<i64>
    }) : (tensor<2x7xi64>, tensor<i64>) -> tensor<2x7xi64>
    return %1 : tensor<2x7xi64>
  }
  func.func private @argmax(%arg0: tensor<2x7xi64>) -> tensor<2xi64> {
    %0 = stablehlo.iota dim = 1 : tensor<2x7xi64>
    %c = stablehlo.constant dense<-9223372036854775808> : tensor<i64>
    %c_0 = stablehlo.constant dense<0> : tensor<i64>
    %1:2 = stablehlo.reduce(%arg0 init: %c), (%0 init: %c_0) across dimensions = [1] : (tensor<2x7xi64>, tensor<2x7xi64>, tensor<i64>, tensor<i64>) -> (tensor<2xi64>, tensor<2xi64>)
     reducer(%arg1: tensor<i64>, %arg3: tensor<i64>) (%arg2: tensor<i64>, %arg4: tensor<i64>)  {
      %2 = stablehlo.compare GT, %arg1, %arg3, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      %3 = stablehlo.compare NE, %arg1, %arg1, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      %4 = stablehlo.or %2, %3 : tensor<i1>
      %5 = stablehlo.compare EQ, %arg1, %arg3, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      %6 = stablehlo.compare LT, %arg2, %arg4, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      %7 = stablehlo.and %5, %6 : tensor<i1>
      %8 = stablehlo.or %4, %7 : tensor<i1>
      %9 = stablehlo.select %4, %arg1, %arg3 : tensor<i1>, tensor<i64>
      %10 = stablehlo.select %8, %arg2, %arg4 : tensor<i1>, tensor<i64>
      stablehlo.return %9, %10 : tensor<i64>, tensor<i64>
    }
    return %1#1 : tensor<2xi64>
  }
  func.func private @_where_1(%arg0: tensor<2xi1>, %arg1: tensor<f64>, %arg2: tensor<2xf64>) -> tensor<2xf64> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %1 = stablehlo.select %arg0, %0, %arg2 : tensor<2xi1>, tensor<2xf64>
    return %1 : tensor<2xf64>
  }
  func.func private @_where_2(%arg0: tensor<2xi1>, %arg1: tensor<2xf64>, %arg2: tensor<f64>) -> tensor<2xf64> {
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<2xi1>, tensor<2xf64>
    return %1 : tensor<2xf64>
  }
  func.func private @remainder(%arg0: tensor<2xf64>, %arg1: tensor<f64>) -> tensor<2xf64> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %1 = stablehlo.remainder %arg0, %0 : tensor<2xf64>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %3 = stablehlo.compare NE, %1, %2, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %5 = stablehlo.compare LT, %1, %4, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %6 = stablehlo.compare LT, %arg1, %cst_1, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<i1>) -> tensor<2xi1>
    %8 = stablehlo.compare NE, %5, %7, UNSIGNED : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
    %9 = stablehlo.and %8, %3 : tensor<2xi1>
    %10 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %11 = stablehlo.add %1, %10 : tensor<2xf64>
    %12 = stablehlo.select %9, %11, %1 : tensor<2xi1>, tensor<2xf64>
    return %12 : tensor<2xf64>
  }
  func.func private @_where_3(%arg0: tensor<2xi1>, %arg1: tensor<f64>, %arg2: tensor<2xf64>) -> tensor<2xf64> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %1 = stablehlo.select %arg0, %0, %arg2 : tensor<2xi1>, tensor<2xf64>
    return %1 : tensor<2xf64>
  }
  func.func private @_where_4(%arg0: tensor<2xi1>, %arg1: tensor<2xf64>, %arg2: tensor<2xf64>) -> tensor<2xf64> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<2xi1>, tensor<2xf64>
    return %0 : tensor<2xf64>
  }
}
//> d_arg0: f64[2]
//>   min -0.389368, max -0.0964455, mean -0.242907
//>   -0.389368, -0.0964455
//> derivatives agree
//! note: the gradient is that of the values of jax_expn.mlir: stop_gradient and rules of functions are in programs that JAX exports for the platform fluxion
