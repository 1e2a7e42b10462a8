//$ flx gradcheck FILE --in arg0=uniform | grep -o "derivatives agree"
//$ flx grad FILE --wrt arg0 | flx run - --device ref --in arg0=iota
// Implicit steps, with Newton iterations that end after different numbers of rounds. Written by JAX.
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x2xf64>) -> (tensor<f64> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<[1.000000e+00, 5.000000e-01]> : tensor<2xf64>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [1] : (tensor<2xf64>) -> tensor<2x2xf64>
    %c = stablehlo.constant dense<0> : tensor<i64>
    %1:3 = stablehlo.while(%iterArg = %arg0, %iterArg_2 = %c, %iterArg_3 = %0) : tensor<2x2xf64>, tensor<i64>, tensor<2x2xf64>
    cond {
      %c_4 = stablehlo.constant dense<5> : tensor<i64>
      %4 = stablehlo.compare LT, %iterArg_2, %c_4, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    } do {
      %4 = func.call @closed_call(%iterArg, %iterArg_3) : (tensor<2x2xf64>, tensor<2x2xf64>) -> tensor<2x2xf64>
      %c_4 = stablehlo.constant dense<1> : tensor<i64>
      %5 = stablehlo.add %iterArg_2, %c_4 : tensor<i64>
      stablehlo.return %iterArg, %5, %4 : tensor<2x2xf64>, tensor<i64>, tensor<2x2xf64>
    }
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %2 = stablehlo.reduce(%1#2 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<2x2xf64>, tensor<f64>) -> tensor<2xf64>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %3 = stablehlo.reduce(%2 init: %cst_1) applies stablehlo.add across dimensions = [0] : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
    return %3 : tensor<f64>
  }
  func.func private @closed_call(%arg0: tensor<2x2xf64>, %arg1: tensor<2x2xf64>) -> tensor<2x2xf64> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<2xf64>) -> tensor<2x2xf64>
    %c = stablehlo.constant dense<0> : tensor<i64>
    %2 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<2xi64>
    %3:5 = stablehlo.while(%iterArg = %arg1, %iterArg_0 = %arg0, %iterArg_1 = %arg1, %iterArg_2 = %1, %iterArg_3 = %2) : tensor<2x2xf64>, tensor<2x2xf64>, tensor<2x2xf64>, tensor<2x2xf64>, tensor<2xi64>
    cond {
      %4 = func.call @norm(%iterArg_2) : (tensor<2x2xf64>) -> tensor<2xf64>
      %cst_4 = stablehlo.constant dense<9.9999999999999998E-13> : tensor<f64>
      %5 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %6 = stablehlo.compare GT, %4, %5, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
      %c_5 = stablehlo.constant dense<50> : tensor<i64>
      %7 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i64>) -> tensor<2xi64>
      %8 = stablehlo.compare LT, %iterArg_3, %7, SIGNED : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi1>
      %c_6 = stablehlo.constant dense<false> : tensor<i1>
      %9 = stablehlo.broadcast_in_dim %c_6, dims = [] : (tensor<i1>) -> tensor<2xi1>
      %10 = stablehlo.compare NE, %8, %9, UNSIGNED : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
      %11 = stablehlo.convert %10 : tensor<2xi1>
      %12 = stablehlo.and %6, %11 : tensor<2xi1>
      %c_7 = stablehlo.constant dense<false> : tensor<i1>
      %13 = stablehlo.reduce(%12 init: %c_7) applies stablehlo.or across dimensions = [0] : (tensor<2xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %13 : tensor<i1>
    } do {
      %4 = stablehlo.iota dim = 0 : tensor<2x2xi64>
      %5 = stablehlo.iota dim = 1 : tensor<2x2xi64>
      %c_4 = stablehlo.constant dense<0> : tensor<i64>
      %6 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i64>) -> tensor<2x2xi64>
      %7 = stablehlo.add %4, %6 : tensor<2x2xi64>
      %8 = stablehlo.compare EQ, %7, %5, SIGNED : (tensor<2x2xi64>, tensor<2x2xi64>) -> tensor<2x2xi1>
      %9 = stablehlo.convert %8 : (tensor<2x2xi1>) -> tensor<2x2xf64>
      %10 = stablehlo.slice %9 [0:2, 0:2] : (tensor<2x2xf64>) -> tensor<2x2xf64>
      %11 = stablehlo.convert %10 : tensor<2x2xf64>
      %12 = stablehlo.subtract %iterArg_1, %iterArg : tensor<2x2xf64>
      %13 = stablehlo.negate %iterArg_0 : tensor<2x2xf64>
      %14 = stablehlo.multiply %iterArg_1, %iterArg_1 : tensor<2x2xf64>
      %15 = stablehlo.multiply %14, %iterArg_1 : tensor<2x2xf64>
      %16 = stablehlo.multiply %iterArg_1, %iterArg_1 : tensor<2x2xf64>
      %cst_5 = stablehlo.constant dense<3.000000e+00> : tensor<f64>
      %17 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f64>) -> tensor<2x2xf64>
      %18 = stablehlo.multiply %17, %16 : tensor<2x2xf64>
      %19 = stablehlo.broadcast_in_dim %18, dims = [0, 2] : (tensor<2x2xf64>) -> tensor<2x1x2xf64>
      %20 = stablehlo.broadcast_in_dim %11, dims = [1, 2] : (tensor<2x2xf64>) -> tensor<1x2x2xf64>
      %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2] : (tensor<1x2x2xf64>) -> tensor<2x2x2xf64>
      %22 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2] : (tensor<2x1x2xf64>) -> tensor<2x2x2xf64>
      %23 = stablehlo.multiply %21, %22 : tensor<2x2x2xf64>
      %24 = stablehlo.multiply %13, %15 : tensor<2x2xf64>
      %25 = stablehlo.broadcast_in_dim %13, dims = [0, 2] : (tensor<2x2xf64>) -> tensor<2x1x2xf64>
      %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2] : (tensor<2x1x2xf64>) -> tensor<2x2x2xf64>
      %27 = stablehlo.multiply %26, %23 : tensor<2x2x2xf64>
      %28 = stablehlo.reverse %iterArg_1, dims = [1] : tensor<2x2xf64>
      %29 = stablehlo.reverse %11, dims = [1] : tensor<2x2xf64>
      %30 = stablehlo.sine %28 : tensor<2x2xf64>
      %31 = stablehlo.cosine %28 : tensor<2x2xf64>
      %32 = stablehlo.broadcast_in_dim %31, dims = [0, 2] : (tensor<2x2xf64>) -> tensor<2x1x2xf64>
      %33 = stablehlo.broadcast_in_dim %29, dims = [1, 2] : (tensor<2x2xf64>) -> tensor<1x2x2xf64>
      %34 = stablehlo.broadcast_in_dim %33, dims = [0, 1, 2] : (tensor<1x2x2xf64>) -> tensor<2x2x2xf64>
      %35 = stablehlo.broadcast_in_dim %32, dims = [0, 1, 2] : (tensor<2x1x2xf64>) -> tensor<2x2x2xf64>
      %36 = stablehlo.multiply %34, %35 : tensor<2x2x2xf64>
      %37 = stablehlo.add %24, %30 : tensor<2x2xf64>
      %38 = stablehlo.add %27, %36 : tensor<2x2x2xf64>
      %cst_6 = stablehlo.constant dense<1.000000e-01> : tensor<f64>
      %39 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f64>) -> tensor<2x2xf64>
      %40 = stablehlo.multiply %39, %37 : tensor<2x2xf64>
      %cst_7 = stablehlo.constant dense<1.000000e-01> : tensor<f64>
      %41 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f64>) -> tensor<2x2x2xf64>
      %42 = stablehlo.multiply %41, %38 : tensor<2x2x2xf64>
      %43 = stablehlo.subtract %12, %40 : tensor<2x2xf64>
      %44 = stablehlo.broadcast_in_dim %11, dims = [1, 2] : (tensor<2x2xf64>) -> tensor<1x2x2xf64>
      %45 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2] : (tensor<1x2x2xf64>) -> tensor<2x2x2xf64>
      %46 = stablehlo.subtract %45, %42 : tensor<2x2x2xf64>
      %47 = stablehlo.transpose %46, dims = [0, 2, 1] : (tensor<2x2x2xf64>) -> tensor<2x2x2xf64>
      %48 = stablehlo.slice %47 [0:2, 0:2, 0:2] : (tensor<2x2x2xf64>) -> tensor<2x2x2xf64>
      %49 = stablehlo.subtract %iterArg_1, %iterArg : tensor<2x2xf64>
      %50 = stablehlo.negate %iterArg_0 : tensor<2x2xf64>
      %51 = stablehlo.multiply %iterArg_1, %iterArg_1 : tensor<2x2xf64>
      %52 = stablehlo.multiply %51, %iterArg_1 : tensor<2x2xf64>
      %53 = stablehlo.multiply %50, %52 : tensor<2x2xf64>
      %54 = stablehlo.reverse %iterArg_1, dims = [1] : tensor<2x2xf64>
      %55 = stablehlo.sine %54 : tensor<2x2xf64>
      %56 = stablehlo.add %53, %55 : tensor<2x2xf64>
      %cst_8 = stablehlo.constant dense<1.000000e-01> : tensor<f64>
      %57 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f64>) -> tensor<2x2xf64>
      %58 = stablehlo.multiply %57, %56 : tensor<2x2xf64>
      %59 = stablehlo.subtract %49, %58 : tensor<2x2xf64>
      %60 = func.call @solve(%48, %59) : (tensor<2x2x2xf64>, tensor<2x2xf64>) -> tensor<2x2xf64>
      %61 = stablehlo.subtract %iterArg_1, %60 : tensor<2x2xf64>
      %c_9 = stablehlo.constant dense<1> : tensor<i64>
      %62 = stablehlo.broadcast_in_dim %c_9, dims = [] : (tensor<i64>) -> tensor<2xi64>
      %63 = stablehlo.add %iterArg_3, %62 : tensor<2xi64>
      %64 = func.call @norm(%iterArg_2) : (tensor<2x2xf64>) -> tensor<2xf64>
      %cst_10 = stablehlo.constant dense<9.9999999999999998E-13> : tensor<f64>
      %65 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %66 = stablehlo.compare GT, %64, %65, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
      %c_11 = stablehlo.constant dense<50> : tensor<i64>
      %67 = stablehlo.broadcast_in_dim %c_11, dims = [] : (tensor<i64>) -> tensor<2xi64>
      %68 = stablehlo.compare LT, %iterArg_3, %67, SIGNED : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi1>
      %c_12 = stablehlo.constant dense<false> : tensor<i1>
      %69 = stablehlo.broadcast_in_dim %c_12, dims = [] : (tensor<i1>) -> tensor<2xi1>
      %70 = stablehlo.compare NE, %68, %69, UNSIGNED : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
      %71 = stablehlo.convert %70 : tensor<2xi1>
      %72 = stablehlo.and %66, %71 : tensor<2xi1>
      %73 = stablehlo.broadcast_in_dim %72, dims = [0] : (tensor<2xi1>) -> tensor<2x2xi1>
      %74 = stablehlo.select %73, %61, %iterArg_1 : tensor<2x2xi1>, tensor<2x2xf64>
      %75 = stablehlo.broadcast_in_dim %72, dims = [0] : (tensor<2xi1>) -> tensor<2x2xi1>
      %76 = stablehlo.select %75, %60, %iterArg_2 : tensor<2x2xi1>, tensor<2x2xf64>
      %77 = stablehlo.broadcast_in_dim %72, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %78 = stablehlo.select %77, %63, %iterArg_3 : tensor<2xi1>, tensor<2xi64>
      stablehlo.return %iterArg, %iterArg_0, %74, %76, %78 : tensor<2x2xf64>, tensor<2x2xf64>, tensor<2x2xf64>, tensor<2x2xf64>, tensor<2xi64>
    }
    return %3#2 : tensor<2x2xf64>
  }
  func.func private @norm(%arg0: tensor<2x2xf64>) -> tensor<2xf64> {
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<2x2xf64>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<2x2xf64>, tensor<f64>) -> tensor<2xf64>
    %2 = stablehlo.sqrt %1 : tensor<2xf64>
    return %2 : tensor<2xf64>
  }
  func.func private @solve(%arg0: tensor<2x2x2xf64>, %arg1: tensor<2x2xf64>) -> tensor<2x2xf64> {
    %0:3 = stablehlo.custom_call @lapack_dgetrf_ffi(%arg0) {backend_config = "", mhlo.backend_config = {}, mhlo.frontend_attributes = {num_batch_dims = "1"}, operand_layouts = [dense<[1, 2, 0]> : tensor<3xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>], result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>, dense<[1, 0]> : tensor<2xindex>, dense<0> : tensor<1xindex>], sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, l, m], [i, n], [i]) {i=2, j=2, k=2, l=2, m=2, n=2}, custom>} : (tensor<2x2x2xf64>) -> (tensor<2x2x2xf64>, tensor<2x2xi32>, tensor<2xi32>)
    %c = stablehlo.constant dense<1> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x2xi32>
    %2 = stablehlo.subtract %0#1, %1 : tensor<2x2xi32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %4 = stablehlo.compare GE, %0#2, %3, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<2xi1>) -> tensor<2x1x1xi1>
    %cst = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %6 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<2x2x2xf64>
    %7 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<2x1x1xi1>) -> tensor<2x2x2xi1>
    %8 = stablehlo.select %7, %0#0, %6 : tensor<2x2x2xi1>, tensor<2x2x2xf64>
    %9 = stablehlo.iota dim = 1 : tensor<2x2xi32>
    %c_1 = stablehlo.constant dense<0> : tensor<i64>
    %c_2 = stablehlo.constant dense<0> : tensor<i64>
    %10:4 = stablehlo.while(%iterArg = %2, %iterArg_3 = %c_2, %iterArg_4 = %c_1, %iterArg_5 = %9) : tensor<2x2xi32>, tensor<i64>, tensor<i64>, tensor<2x2xi32>
    cond {
      %c_6 = stablehlo.constant dense<2> : tensor<i64>
      %12 = stablehlo.compare LT, %iterArg_3, %c_6, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %12 : tensor<i1>
    } do {
      %12:2 = func.call @closed_call_0(%iterArg, %iterArg_4, %iterArg_5) : (tensor<2x2xi32>, tensor<i64>, tensor<2x2xi32>) -> (tensor<i64>, tensor<2x2xi32>)
      %c_6 = stablehlo.constant dense<1> : tensor<i64>
      %13 = stablehlo.add %iterArg_3, %c_6 : tensor<i64>
      stablehlo.return %iterArg, %13, %12#0, %12#1 : tensor<2x2xi32>, tensor<i64>, tensor<i64>, tensor<2x2xi32>
    }
    %11 = call @_lu_solve(%8, %10#3, %arg1) : (tensor<2x2x2xf64>, tensor<2x2xi32>, tensor<2x2xf64>) -> tensor<2x2xf64>
    return %11 : tensor<2x2xf64>
  }
  func.func private @closed_call_0(%arg0: tensor<2x2xi32>, %arg1: tensor<i64>, %arg2: tensor<2x2xi32>) -> (tensor<i64>, tensor<2x2xi32>) {
    %c = stablehlo.constant dense<1> : tensor<i64>
    %0 = stablehlo.add %arg1, %c : tensor<i64>
    %c_0 = stablehlo.constant dense<0> : tensor<i64>
    %1 = stablehlo.compare LT, %arg1, %c_0, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %2 = stablehlo.convert %arg1 : tensor<i64>
    %c_1 = stablehlo.constant dense<2> : tensor<i64>
    %3 = stablehlo.add %2, %c_1 : tensor<i64>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<i1>, tensor<i64>
    %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<i64>) -> tensor<1xi64>
    %6 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1], start_index_map = [1]>, indices_are_sorted = true, slice_sizes = array<i64: 2, 1>}> : (tensor<2x2xi32>, tensor<1xi64>) -> tensor<2x1xi32>
    %7 = stablehlo.reshape %6 : (tensor<2x1xi32>) -> tensor<2xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i64>
    %8 = stablehlo.compare LT, %arg1, %c_2, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %9 = stablehlo.convert %arg1 : tensor<i64>
    %c_3 = stablehlo.constant dense<2> : tensor<i64>
    %10 = stablehlo.add %9, %c_3 : tensor<i64>
    %11 = stablehlo.select %8, %10, %arg1 : tensor<i1>, tensor<i64>
    %12 = stablehlo.broadcast_in_dim %11, dims = [] : (tensor<i64>) -> tensor<1xi64>
    %13 = "stablehlo.gather"(%arg2, %12) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1], start_index_map = [1]>, indices_are_sorted = true, slice_sizes = array<i64: 2, 1>}> : (tensor<2x2xi32>, tensor<1xi64>) -> tensor<2x1xi32>
    %14 = stablehlo.reshape %13 : (tensor<2x1xi32>) -> tensor<2xi32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %15 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %16 = stablehlo.compare LT, %7, %15, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %c_5 = stablehlo.constant dense<2> : tensor<i32>
    %17 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %18 = stablehlo.add %7, %17 : tensor<2xi32>
    %19 = stablehlo.select %16, %18, %7 : tensor<2xi1>, tensor<2xi32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0] : (tensor<2xi32>) -> tensor<2x1xi32>
    %21 = "stablehlo.gather"(%arg2, %20) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1>, indices_are_sorted = true, slice_sizes = array<i64: 1, 1>}> : (tensor<2x2xi32>, tensor<2x1xi32>) -> tensor<2x1xi32>
    %22 = stablehlo.reshape %21 : (tensor<2x1xi32>) -> tensor<2xi32>
    %c_6 = stablehlo.constant dense<0> : tensor<i64>
    %23 = stablehlo.compare LT, %arg1, %c_6, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %c_7 = stablehlo.constant dense<2> : tensor<i64>
    %24 = stablehlo.add %arg1, %c_7 : tensor<i64>
    %25 = stablehlo.select %23, %24, %arg1 : tensor<i1>, tensor<i64>
    %26 = stablehlo.convert %25 : (tensor<i64>) -> tensor<i32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %28 = "stablehlo.scatter"(%arg2, %27, %22) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1]>, unique_indices = true}> ({
    ^bb0(%arg3: tensor<i32>, %arg4: tensor<i32>):
      stablehlo.return %arg4 : tensor<i32>
    }) : (tensor<2x2xi32>, tensor<1xi32>, tensor<2xi32>) -> tensor<2x2xi32>
    %c_8 = stablehlo.constant dense<0> : tensor<i32>
    %29 = stablehlo.broadcast_in_dim %c_8, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %30 = stablehlo.compare LT, %7, %29, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %c_9 = stablehlo.constant dense<2> : tensor<i32>
    %31 = stablehlo.broadcast_in_dim %c_9, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %32 = stablehlo.add %7, %31 : tensor<2xi32>
    %33 = stablehlo.select %30, %32, %7 : tensor<2xi1>, tensor<2xi32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0] : (tensor<2xi32>) -> tensor<2x1xi32>
    %35 = "stablehlo.scatter"(%28, %34, %14) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 1>, unique_indices = true}> ({
    ^bb0(%arg3: tensor<i32>, %arg4: tensor<i32>):
      stablehlo.return %arg4 : tensor<i32>
    }) : (tensor<2x2xi32>, tensor<2x1xi32>, tensor<2xi32>) -> tensor<2x2xi32>
    return %0, %35 : tensor<i64>, tensor<2x2xi32>
  }
  func.func private @_lu_solve(%arg0: tensor<2x2x2xf64>, %arg1: tensor<2x2xi32>, %arg2: tensor<2x2xf64>) -> tensor<2x2xf64> {
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1] : (tensor<2x2xf64>) -> tensor<2x2x1xf64>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x2xi32>
    %2 = stablehlo.compare LT, %arg1, %1, SIGNED : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi1>
    %c_0 = stablehlo.constant dense<2> : tensor<i32>
    %3 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2x2xi32>
    %4 = stablehlo.add %arg1, %3 : tensor<2x2xi32>
    %5 = stablehlo.select %2, %4, %arg1 : tensor<2x2xi1>, tensor<2x2xi32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<2x2xi32>) -> tensor<2x2x1xi32>
    %7 = "stablehlo.gather"(%0, %6) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 1>}> : (tensor<2x2x1xf64>, tensor<2x2x1xi32>) -> tensor<2x2x1xf64>
    %8 = stablehlo.custom_call @lapack_dtrsm_ffi(%arg0, %7) {backend_config = "", mhlo.backend_config = {diag = 85 : ui8, side = 76 : ui8, trans_x = 78 : ui8, uplo = 76 : ui8}, mhlo.frontend_attributes = {num_batch_dims = "1"}, operand_layouts = [dense<[1, 2, 0]> : tensor<3xindex>, dense<[1, 2, 0]> : tensor<3xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 1, operand_tuple_indices = []>], result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>], sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, l, m])->([i, n, o]) {i=2, j=2, k=2, l=2, m=1, n=2, o=1}, custom>} : (tensor<2x2x2xf64>, tensor<2x2x1xf64>) -> tensor<2x2x1xf64>
    %9 = stablehlo.custom_call @lapack_dtrsm_ffi(%arg0, %8) {backend_config = "", mhlo.backend_config = {diag = 78 : ui8, side = 76 : ui8, trans_x = 78 : ui8, uplo = 85 : ui8}, mhlo.frontend_attributes = {num_batch_dims = "1"}, operand_layouts = [dense<[1, 2, 0]> : tensor<3xindex>, dense<[1, 2, 0]> : tensor<3xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 1, operand_tuple_indices = []>], result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>], sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, l, m])->([i, n, o]) {i=2, j=2, k=2, l=2, m=1, n=2, o=1}, custom>} : (tensor<2x2x2xf64>, tensor<2x2x1xf64>) -> tensor<2x2x1xf64>
    %10 = stablehlo.reshape %9 : (tensor<2x2x1xf64>) -> tensor<2x2xf64>
    return %10 : tensor<2x2xf64>
  }
}
//> derivatives agree
//> d_arg0: f64[2, 2]
//>   min -0.900697, max -0.0531577, mean -0.304932
//>   -0.900697, -0.141696, -0.124177, -0.0531577
//! note: the gradient is that of the values of jax_implicit.mlir: stop_gradient and rules of functions are in programs that JAX exports for the platform fluxion
