package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"mime"
	"path"
	"strings"
	"sync"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static/*
var staticFiles embed.FS

// A page is a template in its layout.
type page struct{ template *template.Template }

// parsePages parses every page once: a mistake in one fails the tests, not a request.
var parsePages = sync.OnceValue(func() map[string]*page {
	shared := template.Must(template.New("").Funcs(template.FuncMap{
		"asset": asset, "icon": icon, "list": func(items ...any) []any { return items }, "pair": newPair,
		"status": newStatusChip,
	}).ParseFS(templateFiles, "templates/_*.html"))
	names, err := fs.Glob(templateFiles, "templates/[a-z]*.html")
	if err != nil {
		panic(err)
	}
	pages := make(map[string]*page, len(names))
	for _, name := range names {
		t := template.Must(template.Must(shared.Clone()).ParseFS(templateFiles, name))
		pages[strings.TrimSuffix(path.Base(name), ".html")] = &page{t}
	}
	return pages
})

// A pair gives a partial template the view and what it is about.
type pair struct {
	V *view
	X any
}

func newPair(v *view, x any) pair { return pair{v, x} }

// assets are the embedded files with a version in their address, so that browsers may
// keep them for good.
var assets = sync.OnceValue(func() map[string]assetFile {
	files := map[string]assetFile{}
	entries, err := staticFiles.ReadDir("static")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		body, err := staticFiles.ReadFile("static/" + e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(body)
		files[e.Name()] = assetFile{body: body, version: hex.EncodeToString(sum[:6]), kind: contentType(e.Name())}
	}
	return files
})

type assetFile struct {
	body          []byte
	version, kind string
}

func contentType(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	}
	return mime.TypeByExtension(path.Ext(name))
}

func asset(name string) string { return "/static/" + name + "?v=" + assets()[name].version }

// asset serves an embedded file by its exact name: nothing of the request is ever a path.
func (c *Console) asset(v *view) {
	file, ok := assets()[v.r.PathValue("name")]
	if !ok {
		v.notFound()
		return
	}
	h := v.w.Header()
	h.Set("Content-Type", file.kind)
	if v.r.URL.Query().Get("v") == file.version {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = v.w.Write(file.body) // the browser is gone; nobody to tell
}

// icon draws one of the console's own icons.
func icon(name string) template.HTML {
	// The text is a constant of this package.
	return template.HTML(`<svg class="icon" viewBox="0 0 20 20" aria-hidden="true" focusable="false">` + icons[name] + `</svg>`) //nolint:gosec // constant
}

var icons = map[string]string{
	"overview": `<path d="M3 11h4v6H3zM8 3h4v14H8zM13 7h4v10h-4z"/>`,
	"messages": `<path d="M3 5h14v10H3zM3 6l7 5 7-5"/>`,
	"dead":     `<path d="M10 3l8 14H2zM10 8v4M10 14v1"/>`,
	"replay":   `<path d="M4 10a6 6 0 1 0 2-4.5M4 3v4h4"/>`,
	"keys":     `<path d="M13 3a4 4 0 1 1-3.4 6.1L3 15.7V17h3v-2h2v-2h1.5"/>`,
	"routes":   `<path d="M4 4h4v4H4zM12 12h4v4h-4zM6 8v6h6"/>`,
	"relays":   `<path d="M3 4h14v5H3zM3 11h14v5H3zM6 6.5h.1M6 13.5h.1"/>`,
	"audit":    `<path d="M5 3h10v14H5zM8 7h4M8 10h4M8 13h2"/>`,
	"settings": `<path d="M3 6h8M15 6h2M3 14h2M9 14h8M13 4v4M7 12v4"/>`,
	"ok":       `<path d="M4 10.5l4 4 8-9"/>`,
	"bad":      `<path d="M10 3l8 14H2zM10 8v4M10 14v1"/>`,
	"pause":    `<path d="M7 4v12M13 4v12"/>`,
	"copy":     `<path d="M7 7h9v10H7zM4 13V3h9"/>`,
	"lock":     `<path d="M5 9h10v8H5zM7 9V6a3 3 0 0 1 6 0v3"/>`,
	"sun":      `<path d="M10 6.5a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7zM10 2v2M10 16v2M2 10h2M16 10h2M4.5 4.5l1.4 1.4M14.1 14.1l1.4 1.4M15.5 4.5l-1.4 1.4M5.9 14.1l-1.4 1.4"/>`,
	"moon":     `<path d="M16 12.5A7 7 0 0 1 7.5 4 7 7 0 1 0 16 12.5z"/>`,
	"auto":     `<path d="M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM10 3v14"/>`,
	"right":    `<path d="M7 4l6 6-6 6"/>`,
	"help":     `<path d="M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM8 8a2 2 0 1 1 2.5 2c-.4.2-.5.5-.5 1v.3M10 13.5v.2"/>`,
}
