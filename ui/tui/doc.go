// Package tui is the terminal UI on bubbletea. The root model routes messages
// and owns what there is one of: size, theme, keys, the stacks of screens and
// dialogs, toasts and the store. Screens (ui/tui/screen/...) own their view
// state and render strings; only the root returns a View. Slow work runs in
// commands made by a task.Runner, with ids and contexts; flows ask for PINs by
// dialogs (ui/tui/dialog). Nothing does I/O in Init, Update or View.
//
// The top level is a row of sections (sections.go), each with a stack of its
// own. What changes something is a screen.Operation: the root runs one at a time,
// below a dialog that cancels it, and refuses it in read-only mode. While the UI
// is open it is offered to the agent as a person to ask (backend.go).
//
// A new screen is a package under ui/tui/screen that implements screen.Screen,
// and one line in makeSections.
package tui
