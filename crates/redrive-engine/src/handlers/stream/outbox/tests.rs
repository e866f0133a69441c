use super::*;

#[test]
fn a_program_that_never_catches_up_costs_no_more_than_it_has_to_read() {
    let mut outbox = Outbox::default();
    let line = "x".repeat(1_000);
    outbox.push(&line);
    for _ in 0..10_000 {
        outbox.push(&line);
        outbox.sent(1_000);
        assert_eq!(outbox.unsent().len(), 1_000);
    }
    assert!(outbox.bytes.capacity() < 10_000, "it has {} bytes", outbox.bytes.capacity());
}

#[test]
fn what_is_written_in_pieces_is_written_whole_and_in_order() {
    let (mut outbox, mut received) = (Outbox::default(), String::new());
    let mut begins = Vec::new();
    for n in 0..100 {
        begins.push((outbox.end() as usize, format!("<{n}>")));
        outbox.push(&format!("<{n}>"));
        let piece = outbox.unsent().len().min(n % 7);
        received.push_str(str::from_utf8(&outbox.unsent()[..piece]).unwrap());
        outbox.sent(piece);
        assert_eq!(outbox.written(), received.len() as u64);
    }
    received.push_str(str::from_utf8(outbox.unsent()).unwrap());
    for (at, line) in begins {
        assert_eq!(received[at..at + line.len()], line);
    }
}

#[test]
fn what_is_dropped_counts_as_never_sent() {
    let mut outbox = Outbox::default();
    outbox.push("first and second");
    outbox.sent(5);
    outbox.clear();
    assert_eq!((outbox.written(), outbox.end(), outbox.unsent()), (5, 5, &b""[..]));
}
