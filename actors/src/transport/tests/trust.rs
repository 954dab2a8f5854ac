use std::error::Error;
use std::os::unix::fs::PermissionsExt;

use quinn::VarInt;
use shoal_exact::Arithmetic;

use super::*;
use crate::transport::quic;

/// Both ends are told which cluster was asked for and which was found, whoever dials.
#[tokio::test]
async fn a_certificate_of_another_cluster_is_refused_with_both_names() {
    let (ours, theirs) = (ClusterCa::generate().expect("a cluster"), ClusterCa::generate().expect("a cluster"));
    let (a, mut b) = (End::new(&ours, 1), End::new(&theirs, 2));
    let error = a.connect(&b).await.expect_err("another cluster");
    let Inbound::Rejected { cause, .. } = b.next().await else { panic!("the other end is told too") };
    for error in [error, cause] {
        assert!(matches!(error, ConnectError::Certificate { .. }), "{error}");
        let text = error.to_string();
        for part in [ours.name().to_string(), theirs.name().to_string(), "shoalctl init".to_owned()] {
            assert!(text.contains(&part), "{text:?} does not say {part:?}");
        }
    }
}

#[tokio::test]
async fn a_daemon_without_a_certificate_of_the_cluster_is_refused_by_the_end_that_is_dialled() {
    let (ours, theirs) = (ClusterCa::generate().expect("a cluster"), ClusterCa::generate().expect("a cluster"));
    let mut b = End::new(&ours, 2);
    // Trusts the cluster, but shows a certificate of another.
    let mut impostor = identity(&theirs, 1);
    let mut shown = identity(&ours, 1);
    std::mem::swap(&mut impostor.certificate, &mut shown.certificate);
    std::mem::swap(&mut impostor.key, &mut shown.key);
    let (endpoint, configs, _tcp) = raw_endpoint(&shown);
    let connecting = endpoint.connect_with(configs.client(true), b.address(), pki::SERVER_NAME).expect("an address");
    let refused = match timeout(DEADLINE, connecting).await.expect("in time") {
        Ok(connection) => timeout(DEADLINE, connection.closed()).await.expect("in time"),
        Err(error) => error,
    };
    assert!(matches!(refused, quinn::ConnectionError::ConnectionClosed(_)), "{refused}");
    let Inbound::Rejected { cause, .. } = b.next().await else { panic!("the owner is told") };
    assert!(matches!(cause, ConnectError::Certificate { .. }), "{cause}");
}

fn greeting_of_version(version: u16) -> Vec<u8> {
    let own = instance::Instance::draw().expect("randomness");
    let mut bytes = hello::encode(&own, &hello(1)).expect("a greeting");
    bytes[6..8].copy_from_slice(&version.to_le_bytes());
    bytes
}

#[tokio::test]
async fn another_protocol_version_is_named_at_the_end_that_is_dialled() {
    let ca = ClusterCa::generate().expect("a cluster");
    let mut b = End::new(&ca, 2);
    let (endpoint, configs, _tcp) = raw_endpoint(&identity(&ca, 1));
    let connecting = endpoint.connect_with(configs.client(true), b.address(), pki::SERVER_NAME).expect("an address");
    let connection = timeout(DEADLINE, connecting).await.expect("in time").expect("a connection");
    let (mut send, _receive) = connection.open_bi().await.expect("a stream");
    send.write_all(&greeting_of_version(999)).await.expect("written");
    let Inbound::Rejected { cause, .. } = b.next().await else { panic!("the owner is told") };
    assert_eq!(
        cause,
        ConnectError::Protocol { address: endpoint.local_addr().expect("bound"), ours: wire::VERSION, theirs: 999 }
    );
    match timeout(DEADLINE, connection.closed()).await.expect("in time") {
        quinn::ConnectionError::ApplicationClosed(close) => {
            assert_eq!(
                (close.error_code, &close.reason[..]),
                (VarInt::from_u32(1), wire::VERSION.to_string().as_bytes())
            );
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn another_protocol_version_is_named_at_the_end_that_dials() {
    let ca = ClusterCa::generate().expect("a cluster");
    let a = End::new(&ca, 1);
    for says_so in [true, false] {
        let (endpoint, _, tcp) = raw_endpoint(&identity(&ca, 2));
        let address = endpoint.local_addr().expect("bound");
        let other = async {
            let connection = endpoint.accept().await.expect("a caller").await.expect("a connection");
            let (mut send, _receive) = connection.accept_bi().await.expect("a stream");
            if says_so {
                send.write_all(&greeting_of_version(7)).await.expect("written");
            } else {
                quic::CloseCode::Protocol.close(&connection, "7");
            }
            connection.closed().await
        };
        let (found, _) = tokio::join!(a.endpoint.connect(callee(2), address, hello(1)), other);
        let error = found.expect_err("another protocol");
        assert_eq!(error, ConnectError::Protocol { address, ours: wire::VERSION, theirs: 7 });
        assert!(error.to_string().contains("run the same release on both"));
        drop(tcp);
    }
}

#[tokio::test]
async fn who_answers_must_be_who_was_asked_for() {
    let ca = ClusterCa::generate().expect("a cluster");
    let (a, mut b) = (End::new(&ca, 1), End::new(&ca, 2));
    let connect = a.endpoint.connect(callee(3), b.address(), hello(1));
    let (error, _) = tokio::join!(connect, async {
        assert_eq!(b.up().await, worker(1));
        b.down().await
    });
    let found = ConnectError::WrongPeer { address: b.address(), asked: worker(3), found: "n2".to_owned() };
    assert_eq!(error, Err(found));
}

/// Nobody speaks under a name that is not on the certificate: a worker not as the coordinator, the coordinator not as a
/// worker, a worker not as another one. Both ends are told what was said and what was shown.
#[tokio::test]
async fn a_caller_speaks_only_as_whom_its_certificate_names() {
    let ca = ClusterCa::generate().expect("a cluster");
    let introduction = |name: &str| wire::Introduction {
        node: None,
        name: name.to_owned(),
        address: loopback(),
        pid: 1,
        budget_bytes: 1,
        threads: 1,
        class: String::new(),
        arithmetic: Arithmetic::Fused,
        written: Vec::new(),
    };
    let (coordinator, introduced) = (Who::Coordinator { incarnation: 1 }, |name| Who::Worker(introduction(name)));
    let cases = [
        ("node-1", coordinator, "the coordinator", "worker node-1"),
        (COORDINATOR, Who::Peer(NodeId(1)), "worker n1", "the coordinator"),
        (COORDINATOR, introduced(COORDINATOR), "worker coordinator", "the coordinator"),
        ("node-1", introduced("node-3"), "worker node-3", "worker node-1"),
    ];
    let mut b = End::new(&ca, 2);
    for (certificate, who, says, bearer) in cases {
        let a = End::with(&ca, 1, Arc::new(NoBulk), |config| {
            config.identity = ca.identity(certificate, pki::NODE_VALIDITY).expect("an identity");
        });
        let told = a.endpoint.connect(callee(2), b.address(), Hello { protocol: wire::VERSION, who }).await;
        let Err(ConnectError::Refused { reason, .. }) = told else { panic!("{told:?}") };
        assert!(reason.contains(says) && reason.contains(bearer), "{reason}");
        let Inbound::Rejected { cause, .. } = b.next().await else { panic!("the owner is told") };
        let (says, bearer) = (says.to_owned(), bearer.to_owned());
        assert_eq!(cause, ConnectError::Impostor { address: a.address(), says, bearer });
        assert!(cause.to_string().contains("shoalctl init --node"), "{cause}");
    }
}

/// Whoever answers has to show the certificate of whom was dialled.
#[tokio::test]
async fn a_callee_is_only_whom_its_certificate_names() {
    let ca = ClusterCa::generate().expect("a cluster");
    let (a, mut b) = (End::new(&ca, 1), End::new(&ca, 2));
    let address = b.address();
    for (callee, who, says) in [
        (Callee::worker(NodeId(2), "node-3"), Who::Peer(NodeId(2)), "worker node-3"),
        (Callee::coordinator(), Who::Coordinator { incarnation: 1 }, "the coordinator"),
    ] {
        let connect = a.endpoint.connect(callee, address, hello(1));
        let answer = async {
            while let Some(event) = timeout(DEADLINE, b.inbound.recv()).await.expect("in time") {
                match event {
                    Inbound::Knock(caller) => {
                        caller.admit(worker(1), Hello { protocol: wire::VERSION, who: who.clone() })
                    }
                    Inbound::PeerDown { .. } => return,
                    _ => {}
                }
            }
        };
        let (error, ()) = tokio::join!(connect, answer);
        let (says, bearer) = (says.to_owned(), "worker node-2".to_owned());
        assert_eq!(error, Err(ConnectError::Impostor { address, says, bearer }));
    }
}

#[tokio::test]
async fn a_refused_caller_gets_the_reason() {
    let ca = ClusterCa::generate().expect("a cluster");
    let (a, mut b) = (End::new(&ca, 1), End::new(&ca, 2));
    let connect = a.connect(&b);
    let refuse = async {
        match timeout(DEADLINE, b.inbound.recv()).await.expect("in time") {
            Some(Inbound::Knock(caller)) => {
                assert_eq!((caller.hello(), caller.address()), (&hello(1), a.address()));
                caller.refuse("n1 was declared lost under generation 4.2");
            }
            other => panic!("{other:?}"),
        }
    };
    let (error, ()) = tokio::join!(connect, refuse);
    let reason = "n1 was declared lost under generation 4.2".to_owned();
    assert_eq!(error, Err(ConnectError::Refused { address: b.address(), reason }));
}

#[tokio::test]
async fn nobody_there_is_known_at_once() {
    let ca = ClusterCa::generate().expect("a cluster");
    let a = End::new(&ca, 1);
    let gone = End::new(&ca, 2);
    let address = gone.address();
    gone.endpoint.shutdown("").await;
    drop(gone);
    let error = timeout(DEADLINE, async {
        loop {
            match a.endpoint.connect(callee(2), address, hello(1)).await {
                Err(ConnectError::NobodyListens { .. }) => break,
                other => assert!(other.is_err(), "nobody can answer"),
            }
        }
    });
    error.await.expect("refused as soon as the socket is closed");
}

#[test]
fn a_port_in_use_says_so() {
    let ca = ClusterCa::generate().expect("a cluster");
    let a = End::new(&ca, 1);
    let config = EndpointConfig::new(a.address(), identity(&ca, 2));
    let error = Endpoint::bind(config, Arc::new(NoBulk)).expect_err("the port is taken");
    let text = error.to_string();
    assert!(text.contains(&a.address().to_string()) && text.contains("choose another"), "{text}");
    assert!(error.source().is_some());
}

#[test]
fn certificates_survive_their_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ca_dir, node_dir) = (dir.path().join("ca"), dir.path().join("nodes/n1"));
    let ca = ClusterCa::create(&ca_dir).expect("a cluster");
    assert!(matches!(ClusterCa::create(&ca_dir), Err(PkiError::Exists { .. })), "a cluster is not overwritten");
    let again = ClusterCa::load(&ca_dir).expect("what was written");
    assert_eq!(ca.name(), again.name());
    again.issue("n1", &node_dir, pki::NODE_VALIDITY).expect("an identity");
    let bearer = Bearer::Worker("n1".to_owned());
    assert_eq!(Identity::load(&node_dir, &bearer).expect("what was written").cluster(), ca.name());
    for file in [ca_dir.join("ca.key"), ca_dir.join("ca.crt"), node_dir.join("node.key"), node_dir.join("node.crt")] {
        let mode = std::fs::metadata(&file).expect("it exists").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
}

#[test]
fn unusable_files_say_which_and_what_to_do() {
    let dir = tempfile::tempdir().expect("a directory");
    let ca = ClusterCa::generate().expect("a cluster");
    let path = dir.path();
    let bearer = Bearer::Worker("n1".to_owned());
    let says = |parts: &[&str]| {
        let text = Identity::load(path, &bearer).expect_err("unusable").to_string();
        for part in parts {
            assert!(text.contains(part), "{text:?} does not say {part:?}");
        }
    };
    says(&["cannot read", "node.crt", "shoalctl init"]);
    ca.issue("n1", path, pki::NODE_VALIDITY).expect("an identity");
    std::fs::write(path.join("node.key"), "not a key").expect("written");
    says(&["node.key", "private key"]);
    ca.issue("n1", path, pki::NODE_VALIDITY).expect("an identity");
    ClusterCa::generate().expect("a cluster").issue("x", &path.join("other"), pki::NODE_VALIDITY).expect("an identity");
    std::fs::copy(path.join("other/ca.crt"), path.join("ca.crt")).expect("copied");
    says(&["node.crt", "is not of cluster"]);
    ca.issue("n1", path, pki::NODE_VALIDITY).expect("an identity");
    std::fs::copy(path.join("other/node.key"), path.join("node.key")).expect("copied");
    says(&["node.crt"]);
    ca.issue("n2", path, pki::NODE_VALIDITY).expect("an identity");
    says(&["node.crt", "of worker n2, not of worker n1", "shoalctl init"]);
    ca.issue("n1", path, Duration::ZERO).expect("an identity");
    let issued = std::time::Instant::now();
    while Identity::load(path, &bearer).is_ok() {
        assert!(issued.elapsed() < DEADLINE, "it expires with the second");
    }
    says(&["node.crt", "xpired"]);
}
