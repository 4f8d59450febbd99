// Package tui is the terminal UI on bubbletea. The root model routes messages
// and owns what there is one of: size, theme, keys, the stacks of screens and
// dialogs, toasts and the store. Screens (ui/tui/screen/...) own their view
// state and render strings; only the root returns a View. Slow work runs in
// commands made by a task.Runner, with ids and contexts; flows ask for PINs by
// dialogs (ui/tui/dialog). Nothing does I/O in Init, Update or View.
//
// The root's parts: navigation.go (sections, each with a stack of screens),
// dialogs.go, toasts.go, operate.go (what changes something: one operation at a
// time, below a dialog that cancels it, none in read-only mode), terminal.go and
// view.go (one frame), sections.go (what screens are made of). While the UI is
// open it is offered to the agent as a responder (responder.go).
//
// A new screen is a package under ui/tui/screen that implements screen.Screen,
// and one line in factory.sections.
package tui
