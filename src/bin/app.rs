//! The page's program: Trunk builds it, `static/boot.js` starts it.

fn main() {
    glassbroker::ui::crash::install();
    glassbroker::ui::app::mount();
}
