//! A real browser, told what to do over WebDriver.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::web;

const MISSING: &str = "Chromium and its driver are missing; install them: \
                       apt-get install chromium chromium-driver";

/// What a browser that nobody sees needs, also as root, and what keeps it from asking the world.
const FLAGS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
];

/// So long something may take to be seen, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// On a busy machine a browser may give up its own start.
const STARTS: u32 = 3;

/// What WebDriver says of an element to which nothing was done.
const UNTOUCHED: [&str; 4] = [
    "no such element",
    "stale element reference",
    "element click intercepted",
    "element not interactable",
];

/// How WebDriver names an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser that does not outlive its test.
pub(crate) struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    site: SocketAddr,
    _said: BufReader<ChildStdout>,
    profile: TempDir,
}

impl Browser {
    /// One that looks at a site.
    pub(crate) fn at(site: SocketAddr) -> Self {
        Self::with(site, json!({}))
    }

    /// One that runs no scripts.
    pub(crate) fn without_scripts(site: SocketAddr) -> Self {
        Self::with(site, json!({ "profile.managed_default_content_settings.javascript": 2 }))
    }

    fn with(site: SocketAddr, settings: Value) -> Self {
        let mut started = Self::start(site, &settings);
        for _ in 1..STARTS {
            started = started.or_else(|_| Self::start(site, &settings));
        }
        let browser = started.unwrap_or_else(|error| panic!("{MISSING}: {error}"));
        // Nobody else has the keyboard.
        browser.devtools("Emulation.setFocusEmulationEnabled", json!({ "enabled": true }));
        browser
    }

    fn start(site: SocketAddr, settings: &Value) -> Result<Self, String> {
        let mut command = Command::new("chromedriver");
        let mut driver = command
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect(MISSING);
        let mut said = BufReader::new(driver.stdout.take().unwrap());
        let port = said_port(&mut said);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let profile = tempfile::tempdir().unwrap();
        let mut flags = FLAGS.map(str::to_owned).to_vec();
        flags.push(format!("--user-data-dir={}", profile.path().display()));
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "args": flags, "prefs": settings },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let (status, body) = web::ask(address, "POST", "/session", Some(&wanted));
        if status != 200 {
            _ = driver.kill();
            _ = driver.wait();
            return Err(body);
        }
        let body: Value = serde_json::from_str(&body).unwrap();
        let session = body["value"]["sessionId"].as_str().unwrap().to_owned();
        Ok(Self { driver, address, session, site, _said: said, profile })
    }

    fn try_tell(&self, method: &str, command: &str, body: Option<&Value>) -> Result<Value, String> {
        let path = format!("/session/{}/{command}", self.session);
        // The session itself, without a command, is known without a slash alone.
        let (status, body) = web::ask(self.address, method, path.trim_end_matches('/'), body);
        let mut answer: Value = serde_json::from_str(&body).unwrap();
        if status == 200 {
            Ok(answer["value"].take())
        } else {
            Err(format!("{command}: {body:.600}"))
        }
    }

    #[track_caller]
    fn tell(&self, command: &str, body: Value) -> Value {
        self.try_tell("POST", command, Some(&body)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Opens a page.
    #[track_caller]
    pub(crate) fn open(&self, path: &str) {
        self.tell("url", json!({ "url": format!("http://{}{path}", self.site) }));
    }

    /// Where it is, without the site.
    pub(crate) fn place(&self) -> String {
        let url = self.try_tell("GET", "url", None).unwrap();
        let url = url.as_str().unwrap();
        url.strip_prefix(&format!("http://{}", self.site)).unwrap_or(url).to_owned()
    }

    fn find(&self, using: &str, value: &str) -> Result<String, String> {
        let asked = json!({ "using": using, "value": value });
        let found = self.try_tell("POST", "element", Some(&asked))?;
        Ok(found[ELEMENT].as_str().unwrap().to_owned())
    }

    /// Whether an element is there.
    pub(crate) fn has(&self, selector: &str) -> bool {
        self.find("css selector", selector).is_ok()
    }

    /// What people read in an element.
    #[track_caller]
    pub(crate) fn text(&self, selector: &str) -> String {
        self.try_text(selector).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_text(&self, selector: &str) -> Result<String, String> {
        let found = self.find("css selector", selector)?;
        let text = self.try_tell("GET", &format!("element/{found}/text"), None)?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Waits until an element says these words.
    #[track_caller]
    pub(crate) fn wait_for(&self, selector: &str, words: &str) {
        let begun = Instant::now();
        loop {
            let text = self.try_text(selector);
            if text.as_ref().is_ok_and(|text| text.contains(words)) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{selector} never said {words:?}: {text:?}");
        }
    }

    /// Waits until something is so.
    #[track_caller]
    pub(crate) fn wait_until(&self, is_so: impl Fn() -> bool, what: &str) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < PATIENCE, "it never came about that {what}");
        }
    }

    #[track_caller]
    fn click_on(&self, using: &str, value: &str) {
        self.do_to(using, value, "click", &json!({}));
    }

    /// Does something to an element, once it is there and nothing moves it.
    #[track_caller]
    fn do_to(&self, using: &str, value: &str, command: &str, body: &Value) {
        let begun = Instant::now();
        let mut has_left = false;
        loop {
            let done = self.find(using, value).and_then(|found| {
                self.try_tell("POST", &format!("element/{found}/{command}"), Some(body))
            });
            let Err(error) = done else { return };
            // A click that leaves the page may be done and still be answered with an error.
            if has_left && error.contains("no such element") {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{error}");
            has_left |= !UNTOUCHED.iter().any(|known| error.contains(known));
        }
    }

    /// Clicks on an element.
    #[track_caller]
    pub(crate) fn click(&self, selector: &str) {
        self.click_on("css selector", selector);
    }

    /// Clicks on a link with these words in it.
    #[track_caller]
    pub(crate) fn follow(&self, words: &str) {
        self.click_on("partial link text", words);
    }

    /// Types into a field.
    #[track_caller]
    pub(crate) fn write(&self, selector: &str, text: &str) {
        self.do_to("css selector", selector, "value", &json!({ "text": text }));
    }

    /// Presses a key.
    #[track_caller]
    pub(crate) fn press(&self, key: &str) {
        let moves = ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key }));
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": moves });
        self.tell("actions", json!({ "actions": [keyboard] }));
    }

    /// Drags the mouse from one element to another.
    #[track_caller]
    pub(crate) fn drag(&self, from: &str, to: &str) {
        let at = |selector| {
            let element = self.find("css selector", selector).unwrap();
            json!({ "type": "pointerMove", "duration": 50, "x": 0, "y": 0, "origin": { ELEMENT: element } })
        };
        let press = |kind| json!({ "type": kind, "button": 0 });
        let moves = [at(from), press("pointerDown"), at(to), press("pointerUp")];
        let mouse = json!({ "type": "pointer", "id": "mouse", "actions": moves });
        self.tell("actions", json!({ "actions": [mouse] }));
    }

    /// The tab that it looks at.
    pub(crate) fn tab(&self) -> Value {
        self.try_tell("GET", "window", None).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Opens another tab and turns to it.
    #[track_caller]
    pub(crate) fn new_tab(&self) -> Value {
        let tab = self.tell("window/new", json!({ "type": "tab" }))["handle"].take();
        self.turn_to(&tab);
        tab
    }

    /// Looks at another tab.
    #[track_caller]
    pub(crate) fn turn_to(&self, tab: &Value) {
        self.tell("window", json!({ "handle": tab }));
    }

    /// What a script says.
    #[track_caller]
    pub(crate) fn run(&self, script: &str) -> Value {
        self.tell("execute/sync", json!({ "script": script, "args": [] }))
    }

    #[track_caller]
    fn devtools(&self, command: &str, parameters: Value) {
        self.tell("goog/cdp/execute", json!({ "cmd": command, "params": parameters }));
    }

    /// Takes a screen of another size and colour.
    #[track_caller]
    pub(crate) fn look(&self, width: u32, colours: &str) {
        let screen =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.devtools("Emulation.setDeviceMetricsOverride", screen);
        let scheme = json!({ "name": "prefers-color-scheme", "value": colours });
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": [scheme] }));
    }

    /// Keeps a picture of the whole page as output of the tests.
    pub(crate) fn picture(&self, name: &str) {
        let taken =
            json!({ "cmd": "Page.captureScreenshot", "params": { "captureBeyondViewport": true } });
        let taken = self.tell("goog/cdp/execute", taken);
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/screenshots");
        fs::create_dir_all(&folder).unwrap();
        let picture = decoded(taken["data"].as_str().unwrap());
        assert!(picture.starts_with(b"\x89PNG"), "{name}");
        fs::write(folder.join(format!("{name}.png")), picture).unwrap();
    }

    /// What the browser complained about since it was last asked.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let log = self.tell("se/log", json!({ "type": "browser" }));
        let lines = log.as_array().unwrap().iter();
        let told =
            lines.filter(|line| ["SEVERE", "WARNING"].contains(&line["level"].as_str().unwrap()));
        told.map(|line| line["message"].as_str().unwrap().to_owned()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser goes with its session, and the driver by itself.
        _ = self.try_tell("DELETE", "", None);
        _ = self.driver.kill();
        _ = self.driver.wait();
        // Processes of the browser outlive its driver by a moment, and write to the profile.
        let begun = Instant::now();
        while fs::remove_dir_all(self.profile.path()).is_err() && begun.elapsed() < PATIENCE {
            thread::yield_now();
        }
    }
}

fn said_port(said: &mut impl BufRead) -> u16 {
    let mut line = String::new();
    loop {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "{MISSING}");
        let port = line
            .trim()
            .trim_end_matches('.')
            .rsplit_once("successfully on port ")
            .map(|(_, port)| port);
        if let Some(Ok(port)) = port.map(str::parse) {
            return port;
        }
    }
}

/// Bytes that are written as base64.
fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in text.bytes().filter(|digit| *digit != b'=') {
        let value = DIGITS.iter().position(|known| *known == digit).unwrap() as u32;
        (bits, count) = (bits << 6 | value, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    bytes
}
