// Package widget holds the small parts that screens and dialogs are made of:
// lists, forms, text and PIN fields, scrolling text, bars, boxes. Widgets keep
// view state only and render strings; they do no I/O and know no screen. Text
// given to them is clean already (package ui/text), except where they say that
// they clean it.
//
// Keys, the spinner's pictures and the viewport below [Scroll] are those of bubbles
// (charm.land/bubbles/v2). What else it offers would serve people worse, each for
// the reason that stands at [Input], [SecretField], [List] and [Bar].
package widget
