//! Each codec there and back, bounded, and against damage.

use super::*;

const CODECS: [Compression; 4] =
    [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

fn compressed(codec: Compression, values: &[Vec<u8>]) -> Batch {
    let parameters = BatchParameters { compression: codec, ..BatchParameters::default() };
    let mut builder = BatchBuilder::with(parameters);
    for value in values {
        builder.append(&NewRecord { value: Some(value), ..record(None, None) });
    }
    builder.build()
}

/// Bytes that no codec can make smaller.
fn noise(size: u32) -> Vec<u8> {
    (0..size)
        .scan(1_u32, |state, _| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Some((*state >> 24) as u8)
        })
        .collect()
}

#[test]
fn each_codec_gives_back_what_it_took_and_another_reader_agrees() {
    let sizes = [0, 1, 100, 32_768, 200_000];
    for codec in CODECS {
        for values in
            [vec![vec![7; 300_000]], sizes.iter().map(|size| noise(*size)).collect(), vec![vec![]; 5_000]]
        {
            let batch = compressed(codec, &values);
            let read = batch.records().unwrap();
            assert!(read.iter().map(|record| record.value.as_deref().unwrap()).eq(&values), "{codec}");
            assert_eq!((batch.compression(), batch.check_crc()), (Ok(codec), Ok(())));
        }
        let small = compressed(codec, &[vec![7; 300_000]]);
        assert!(small.size_bytes() < 40_000, "{codec}: {}", small.size_bytes());
    }
}

/// The tools of gzip, lz4 and zstd at the levels that are Kafka's by default make these sizes of the same bytes; batches
/// close by what they come to (R-PROD-5). The zstd here is a quick one, whose blocks are a third larger.
#[test]
fn each_codec_comes_to_about_the_size_that_kafkas_does() {
    let line = |n: i64| {
        format!("{{\"n\":{n},\"cart\":\"cart-{}\",\"total\":{}}}\n", n * 7919 % 8, n * n * 31 % 9973)
    };
    let text: String = (0..400).map(line).collect();
    assert_eq!(text.len(), 15_439);
    let references =
        [(Compression::Gzip, 2_535, 125), (Compression::Lz4, 4_706, 125), (Compression::Zstd, 2_434, 140)];
    for (codec, bytes, percent) in references {
        let ours = codec.compress(text.as_bytes(), None).len();
        assert!((bytes * 4 / 5..=bytes * percent / 100).contains(&ours), "{codec}: {ours} against {bytes}");
    }
}

#[test]
fn a_block_of_plain_snappy_is_read_as_well_as_xerials() {
    let plain = build(&[record(Some("k"), Some("v"))]);
    let block = snap::raw::Encoder::new().compress_vec(&plain.body()).unwrap();
    let read = Compression::Snappy.decompress(&block.into());
    assert_eq!(read, Ok(plain.body()));
}

#[test]
fn a_block_that_inflates_beyond_the_limit_is_refused() {
    let limit_bytes = MAX_BLOCK_BYTES as i64;
    for codec in CODECS {
        let fits = Bytes::from(codec.compress(&vec![0; MAX_BLOCK_BYTES], None));
        assert_eq!(codec.decompress(&fits).map(|block| block.len()), Ok(MAX_BLOCK_BYTES), "{codec}");
        let bomb = Bytes::from(codec.compress(&vec![0; MAX_BLOCK_BYTES + 1], None));
        assert_eq!(codec.decompress(&bomb), Err(BatchError::Inflated { limit_bytes }), "{codec}");
    }
}

#[test]
fn a_damaged_or_cut_off_block_is_an_error_and_never_a_panic() {
    for codec in CODECS {
        let block = codec.compress(&noise(500), None);
        for at in 0..block.len() {
            let mut flipped = block.clone();
            flipped[at] ^= 0x41;
            let _ = codec.decompress(&Bytes::from(flipped));
        }
        // The last four bytes may be a mark of the end, which lz4's reader does without.
        for at in 0..block.len() - 4 {
            let cut = codec.decompress(&Bytes::copy_from_slice(&block[..at]));
            assert!(cut.is_err() || cut.is_ok_and(|bytes| bytes.len() < 500), "{codec} cut off at {at}");
        }
        let nonsense = codec.decompress(&Bytes::from_static(b"not compressed at all"));
        assert_eq!(nonsense, Err(BatchError::Decompression(codec)));
    }
}

#[test]
fn a_compressed_batch_is_told_as_one_block_and_then_inside_it() {
    let batch = compressed(Compression::Gzip, &[b"a".to_vec(), b"b".to_vec()]);
    let Annotated { spans, block } = batch.annotate();
    check_cover(&spans, batch.bytes().len());
    assert_eq!(spans.last().map(|span| span.field), Some("records"));
    let (block, inner) = block.unwrap();
    check_cover(&inner, block.len());
    assert_eq!(said(&inner, "value"), ["a", "b"]);
}
