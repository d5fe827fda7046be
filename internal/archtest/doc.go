// Package archtest holds the tests that keep the shape of the module: who may
// import whom, who may start goroutines, and what a program links.
//
// A green run means that every import of every file is an arrow of the table in
// rules_test.go. It says nothing about arrows that a package draws through
// interfaces, reflection or SQL.
package archtest
