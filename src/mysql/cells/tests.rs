//! Batches as rows of both forms.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, DictionaryArray,
    Float32Array, Float64Array, Int32Array, Int64Array, NullArray, StringArray,
    TimestampSecondArray, UInt64Array,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{Field, Int8Type, Schema, i256};

use super::*;

fn cells(arrays: Vec<ArrayRef>) -> Vec<Cells> {
    let fields = arrays.iter().map(|array| Field::new("c", array.data_type().clone(), true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    let count = arrays.len();
    let batch = RecordBatch::try_new(Arc::new(schema), arrays).unwrap();
    assert!(of(&batch, count + 1).is_err());
    of(&batch, count).unwrap()
}

/// The cells of a row in the text form.
fn texts(cells: &[Cells], row: usize) -> Vec<Option<String>> {
    let mut bytes = Vec::new();
    put_text_row(&mut bytes, cells, row);
    let mut rest = &bytes[..];
    let mut texts = Vec::new();
    while let Some((&length, after)) = rest.split_first() {
        if length == NULL {
            texts.push(None);
            rest = after;
        } else {
            let (text, after) = after.split_at(length.into());
            texts.push(Some(String::from_utf8(text.to_vec()).unwrap()));
            rest = after;
        }
    }
    texts
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn text_rows_longer_than_a_line() {
    let text = |at: usize| "x".repeat(at * 7 % 251);
    let array = |at: usize| -> ArrayRef {
        match at % 2 {
            0 => Arc::new(StringArray::from(vec![text(at)])),
            _ => Arc::new(Int64Array::from(vec![11_i64.pow(at as u32 % 18)])),
        }
    };
    let cells = cells((0..100).map(array).collect());
    let shown = |at: usize| match at % 2 {
        0 => text(at),
        _ => 11_i64.pow(at as u32 % 18).to_string(),
    };
    let shown: Vec<_> = (0..100).map(|at| Some(shown(at))).collect();
    assert_eq!(texts(&cells, 0), shown);
}

#[test]
fn text_rows() {
    let dictionary: DictionaryArray<Int8Type> = ["b", "b"].into_iter().collect();
    let cells = cells(vec![
        Arc::new(Int64Array::from(vec![-7, 8])),
        Arc::new(BooleanArray::from(vec![true, false])),
        Arc::new(Float32Array::from(vec![0.1, f32::NAN])),
        Arc::new(Float64Array::from(vec![f64::INFINITY, 0.25])),
        Arc::new(StringArray::from(vec![Some("a"), None])),
        Arc::new(dictionary),
        Arc::new(Decimal128Array::from(vec![-285_714, 5]).with_precision_and_scale(14, 4).unwrap()),
        Arc::new(
            Decimal256Array::from(vec![i256::from_i128(150), i256::from_i128(0)])
                .with_precision_and_scale(60, 2)
                .unwrap(),
        ),
        Arc::new(TimestampSecondArray::from(vec![0, 1_700_000_000])),
        Arc::new(Date32Array::from(vec![19_675, 0])),
        Arc::new(NullArray::new(2)),
        Arc::new(UInt64Array::from(vec![u64::MAX, 0])),
    ]);
    assert_eq!(
        texts(&cells, 0),
        [
            some("-7"),
            some("1"),
            some("0.1"),
            None,
            some("a"),
            some("b"),
            some("-28.5714"),
            some("1.50"),
            some("1970-01-01 00:00:00"),
            some("2023-11-14"),
            None,
            some("18446744073709551615"),
        ]
    );
    assert_eq!(
        texts(&cells, 1),
        [
            some("8"),
            some("0"),
            None,
            some("0.25"),
            None,
            some("b"),
            some("0.0005"),
            some("0.00"),
            some("2023-11-14 22:13:20"),
            some("1970-01-01"),
            None,
            some("0"),
        ]
    );
}

#[test]
fn binary_rows() {
    let cells = cells(vec![
        Arc::new(Int64Array::from(vec![-7])),
        Arc::new(Int64Array::from(vec![7])),
        Arc::new(Float32Array::from(vec![0.123])),
        Arc::new(StringArray::from(vec!["ж"])),
        Arc::new(Int32Array::new(vec![1].into(), Some(NullBuffer::new_null(1)))),
        Arc::new(TimestampSecondArray::from(vec![1_700_000_000])),
        Arc::new(TimestampSecondArray::from(vec![0])),
    ]);
    let mut bytes = Vec::new();
    put_binary_row(&mut bytes, &cells, 0);
    let mut wanted = vec![0x00, 0b0100_0000, 0];
    wanted.extend_from_slice(&(-7_i64).to_le_bytes());
    wanted.extend_from_slice(&7_i64.to_le_bytes());
    wanted.extend_from_slice(&0.123_f32.to_le_bytes());
    wanted.extend_from_slice("\u{2}ж".as_bytes());
    wanted.extend_from_slice(&[7, 0xE7, 0x07, 11, 14, 22, 13, 20]);
    wanted.extend_from_slice(&[4, 0xB2, 0x07, 1, 1]);
    assert_eq!(bytes, wanted);
}
