//! Text that does not get shorter when it is compressed.

/// So many bytes of it, the same every time.
pub(crate) fn noise(length: usize) -> String {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let next = |_| {
        // Marsaglia's xorshift.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'!' + (state >> 32) as u8 % 90)
    };
    (0..length).map(next).collect()
}
