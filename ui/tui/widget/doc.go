// Package widget holds the small parts that screens and dialogs are made of:
// lists, forms, text and PIN fields, scrolling text, bars, boxes. Widgets keep
// view state only and render strings; they do no I/O and know no screen. Text
// given to them is clean already (package ui/text), except where they say that
// they clean it.
package widget
