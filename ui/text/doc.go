// Package text makes text from outside (token labels, certificate subjects,
// server messages) safe to show on a terminal, and fits text to a width
// counted in terminal columns.
//
// Everything that comes from a token, a certificate, a file or a server goes
// through [Clean] or [CleanLines] where it reaches the terminal, and nowhere
// before: data stays raw below the ui.
package text
