//! The way to the database, which can be blocked and cut.

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    sync::watch,
};

/// How the way is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Open,
    /// Connections stand, and nothing gets through. It does later, if the way opens before it is cut.
    Silent,
    /// What is sent to the server gets through; its answers never do.
    Deaf,
    /// Every connection is cut, and new ones are as soon as they are made.
    Cut,
}

/// The way. It lives as long as this.
pub(crate) struct Proxy {
    _runtime: Runtime,
    port: u16,
    way: watch::Sender<Way>,
}

impl Proxy {
    /// A way to a port of this machine.
    pub(crate) fn to(far: u16) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (way, seen) = watch::channel(Way::Open);
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        runtime.spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, far, seen.clone()));
            }
        });
        Self { _runtime: runtime, port, way }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn set(&self, way: Way) {
        self.way.send_replace(way);
    }
}

/// Carries one connection until either side ends it, or it is cut.
async fn carry(mut near: TcpStream, far: u16, way: watch::Receiver<Way>) {
    let mut cut = way.clone();
    let carrying = async {
        let Ok(mut far) = TcpStream::connect(("127.0.0.1", far)).await else { return };
        let (near_out, near_in) = near.split();
        let (far_out, far_in) = far.split();
        tokio::select! {
            () = carry_on(near_out, far_in, way.clone(), |_| false) => {}
            () = carry_on(far_out, near_in, way, |way| way == Way::Deaf) => {}
        }
    };
    tokio::select! {
        () = carrying => {}
        _ = cut.wait_for(|way| *way == Way::Cut) => {}
    }
}

async fn carry_on(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut way: watch::Receiver<Way>,
    is_lost: fn(Way) -> bool,
) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let Ok(length @ 1..) = from.read(&mut bytes).await else { return };
        if is_lost(*way.borrow_and_update()) {
            continue;
        }
        // Who sets the way is gone only when the test is.
        let open = |way: &Way| matches!(way, Way::Open | Way::Deaf);
        let Ok(_) = way.wait_for(open).await else { return };
        if to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}
