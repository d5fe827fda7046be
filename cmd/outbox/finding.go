package main

// A finding is one answer of `outbox doctor`. Level is ok, warning or error.
type finding struct {
	Name  string `json:"name"`
	Level string `json:"level"`
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"`
}
