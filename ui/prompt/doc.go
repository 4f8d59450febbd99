// Package prompt asks a person: for a PIN, for a touch, for a yes; and says why a
// command waits. It has the ends of what package ask describes for the command line and
// the exec plugin, and no full-screen code.
//
// A prompt finds the person, not the program's stdin, which belongs to
// "kubectl apply -f -": [Terminal] opens the controlling terminal for each
// prompt, and only uses it when this process may: it is in the foreground and
// no full-screen program holds the terminal. Package pinentry shows a window,
// [FD] reads a PIN that another program hands over, [None] says that nobody can
// be asked. [Choose] combines them.
//
// A PIN goes from the terminal into locked memory that is overwritten after
// use; it is never echoed, logged or put into an argument or the environment.
package prompt
