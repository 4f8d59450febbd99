// Package ask is the one way in which a person is asked: for a PIN, for a yes, for a
// touch.
//
// A [Func] takes a [Question] and returns its [Answer]. At one end of a chain is who
// asks: a driver, which knows no more than [hsm.Prompter], an agent, a flow. At the
// other end is what shows a prompt: a terminal, a window, a dialog, a connection to a
// program that has one of these. What lies between is [Middleware]: it answers in the
// person's place, adds what a question does not say, or watches.
//
// The package knows tokens only by what prompts say of them, and no way to show one.
package ask
