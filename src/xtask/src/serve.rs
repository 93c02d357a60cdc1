//! The page on this machine, rebuilt at every change.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::dist::trunk;
use crate::repo::{Repo, run};
use crate::tools;

#[derive(Debug, PartialEq)]
struct Options {
    port: u16,
    release: bool,
}

/// Gets what is missing, builds, serves until interrupted.
pub fn serve(repo: &Repo, words: &[&str]) -> Result<(), String> {
    let options = parse(words)?;
    let port = options.port;
    check_free(port)?;
    tools::for_page(repo)?;
    let wait = if options.release { "a few minutes" } else { "about a minute" };
    println!("Building the page: {wait} the first time, seconds after that.");
    thread::spawn(move || announce(port));
    let port = port.to_string();
    // A folder of its own: a build for trying never lies where the release is expected.
    let mut args = vec!["serve", "--port", &port, "--dist", "target/serve"];
    if options.release {
        args.push("--release");
    }
    run(trunk(repo, &args))
}

fn parse(words: &[&str]) -> Result<Options, String> {
    let mut options = Options { port: 8080, release: false };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--release" => options.release = true,
            "--port" => {
                let number = words.next().ok_or("--port needs a number")?;
                options.port = number
                    .parse()
                    .ok()
                    .filter(|port| *port > 0)
                    .ok_or_else(|| format!("--port needs a number from 1 to 65535, not {number}"))?;
            }
            other => return Err(format!("serve does not know {other}; it takes --port N and --release")),
        }
    }
    Ok(options)
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn check_free(port: u16) -> Result<(), String> {
    TcpListener::bind(address(port)).map(drop).map_err(|e| {
        format!(
            "Port {port} cannot be used ({e}). Name another one: cargo xtask serve --port {}",
            other(port)
        )
    })
}

fn other(port: u16) -> u16 {
    if port < u16::MAX { port + 1 } else { 8080 }
}

/// Says the address as soon as somebody answers there. Ends with the process.
fn announce(port: u16) {
    let start = Instant::now();
    while TcpStream::connect(address(port)).is_err() {
        thread::sleep(Duration::from_millis(200));
    }
    let seconds = start.elapsed().as_secs();
    println!("\nGlassbroker is at http://127.0.0.1:{port}/ after {seconds} s. Ctrl-C ends it.\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_in_any_order_and_wrong_ones_refused() {
        assert_eq!(parse(&[]), Ok(Options { port: 8080, release: false }));
        assert_eq!(parse(&["--release", "--port", "9000"]), Ok(Options { port: 9000, release: true }));
        for wrong in [vec!["--port"], vec!["--port", "0"], vec!["--port", "70000"], vec!["--fast"]] {
            assert!(parse(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_port_in_use_is_refused_with_another_one_named() {
        let taken = TcpListener::bind(address(0)).expect("some port is free");
        let port = taken.local_addr().expect("it is bound").port();
        let refusal = check_free(port).expect_err("the port is taken");
        assert!(refusal.contains(&format!("--port {}", other(port))), "{refusal}");
    }
}
