// Package doctest keeps the documentation true: its code is compiled and run, its SQL
// is executed, the tests it names exist and its links resolve. It says nothing about
// whether the sentences around them are right.
package doctest
