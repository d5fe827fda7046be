package contract

import (
	_ "embed"
	"html/template"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	texttemplate "text/template"
)

// maxRows bounds the fields that are shown of one event.
const maxRows = 500

//go:embed catalogue.md.tmpl
var markdownText string

//go:embed catalogue.html.tmpl
var htmlText string

var (
	markdown = texttemplate.Must(texttemplate.New("catalogue").Funcs(texttemplate.FuncMap{"cell": cell, "fence": fence}).Parse(markdownText))
	page     = template.Must(template.New("catalogue").Parse(htmlText))
)

// WriteMarkdown writes a catalogue of all events: topics, fields, bounds and examples,
// as the schemas tell them.
func (r *Registry) WriteMarkdown(w io.Writer) error { return markdown.Execute(w, r.entries()) }

// WriteHTML writes the catalogue as one HTML page without scripts.
func (r *Registry) WriteHTML(w io.Writer) error { return page.Execute(w, r.entries()) }

// An entry is a topic of the catalogue.
type entry struct {
	Topic, Title, Description string
	Deprecated                bool
	// Newer is a later version of the topic, if there is one.
	Newer    string
	Fields   []field
	Examples []string
}

// A field is a row of the table of fields.
type field struct {
	Path, Type, Notes, Description string
	Required, Deprecated           bool
}

func (r *Registry) entries() []entry {
	var all []entry
	for _, topic := range r.Topics() {
		n := flatten(r.schemas[topic].compiled)
		e := entry{Topic: topic, Newer: r.later(topic), Deprecated: newView(n).deprecated}
		e.Title, e.Description = n.words()
		f := fields{open: make(map[string]bool)}
		f.add("", n, true)
		e.Fields = f.rows
		for _, p := range n {
			for _, example := range p.Examples {
				e.Examples = append(e.Examples, jsonText(example))
			}
		}
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b entry) int {
		nameA, versionA := splitVersion(a.Topic)
		nameB, versionB := splitVersion(b.Topic)
		if nameA == nameB {
			return versionA - versionB
		}
		return strings.Compare(nameA, nameB)
	})
	return all
}

// words are the title and description that stand nearest to a value.
func (n node) words() (title, description string) {
	for _, p := range n {
		if title == "" {
			title = p.Title
		}
		if description == "" {
			description = p.Description
		}
	}
	return title, description
}

// fields lists the parts of a schema, each before its own parts.
type fields struct {
	rows []field
	open map[string]bool // nodes above the present one
}

func (f *fields) add(path string, n node, required bool) {
	if len(f.rows) >= maxRows {
		return
	}
	v := newView(n)
	id := n.identity()
	recursive := f.open[id] && path != ""
	if path != "" {
		f.rows = append(f.rows, row(path, n, v, required, recursive))
	}
	if recursive || n.open() {
		return
	}
	f.open[id] = true
	defer delete(f.open, id)
	for _, name := range union(maps.Keys(v.fields), maps.Keys(v.required)) {
		f.add(child(path, name), v.fields[name], v.required[name])
	}
	for _, pattern := range union(maps.Keys(v.patternFields)) {
		f.add(path+"/{"+clip(pattern)+"}", v.patternFields[pattern], false)
	}
	if !v.closed && !v.others.open() {
		f.add(path+"/*", v.others, false)
	}
	for i, item := range v.prefix {
		f.add(path+"/"+strconv.Itoa(i), item, false)
	}
	if !v.rest.open() && newView(v.rest).types != 0 {
		f.add(path+"/*", v.rest, false)
	}
	for _, g := range v.groups {
		for i, branch := range g.branches {
			f.add(path+"("+label(branch, i)+")", flatten(branch), false)
		}
	}
}

func row(path string, n node, v *view, required, recursive bool) field {
	title, description := n.words()
	if description == "" {
		description = title
	}
	r := field{
		Path: path, Type: v.types.String(), Description: description, Required: required,
		Deprecated: v.deprecated, Notes: strings.Join(notes(v), "; "),
	}
	if recursive {
		r.Notes, r.Description = "recursive: as above", ""
	}
	return r
}

// notes are the bounds of a value in words.
func notes(v *view) []string {
	var all []string
	if v.enum != nil {
		all = append(all, "one of "+list(v.enum))
	}
	if len(v.formats) > 0 {
		all = append(all, "format "+list(v.formats))
	}
	if len(v.patterns) > 0 {
		all = append(all, "pattern "+list(v.patterns))
	}
	seen := ""
	for _, l := range allLimits {
		if b := v.bounds[l.name]; b.value != nil && l.name != seen {
			all = append(all, strings.TrimPrefix(l.name, "the ")+" "+b.String())
		}
		seen = l.name
	}
	if v.multiple != nil {
		all = append(all, "multiple of "+number(v.multiple))
	}
	if v.unique {
		all = append(all, "unique items")
	}
	if v.closed {
		all = append(all, "no other fields")
	}
	if v.fallback != "" {
		all = append(all, "default "+clip(v.fallback))
	}
	return all
}

// cell keeps text from ending its cell or becoming markup.
func cell(s string) string {
	return strings.NewReplacer("\\", "\\\\", "|", "\\|", "<", "&lt;", ">", "&gt;", "&", "&amp;", "`", "\\`", "*", "\\*", "_", "\\_",
		"[", "\\[", "]", "\\]", "\r", "", "\n", " ").Replace(s)
}

// fence is a code block that its text cannot end.
func fence(s string) string {
	mark := "```"
	for strings.Contains(s, mark) {
		mark += "`"
	}
	return mark + "json\n" + s + "\n" + mark
}
