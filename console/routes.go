package console

import "net/http"

// routes is the table of contents: every page and endpoint with the least role that it
// needs. Finer checks (tenants, payloads, bulk discards) are in the handlers.
func (c *Console) routes() *http.ServeMux {
	mux := http.NewServeMux()
	viewer := func(pattern string, h func(*view) error) { c.handle(mux, pattern, RoleViewer, h) }
	operator := func(pattern string, h func(*view) error) { c.handle(mux, pattern, RoleOperator, h) }
	admin := func(pattern string, h func(*view) error) { c.handle(mux, pattern, RoleAdmin, h) }

	mux.Handle("GET /static/{name}", c.viewed(c.asset))
	mux.Handle("GET /login", c.viewed(c.loginPage))
	mux.Handle("POST /login", c.viewed(c.login))
	mux.Handle("GET /events", c.viewed(c.events))
	mux.Handle("/", c.viewed((*view).notFound))

	viewer("GET /{$}", c.overview)
	viewer("GET /messages", c.messages)
	viewer("GET /messages/{id}", c.message)
	viewer("GET /dead", c.dead)
	viewer("GET /replay", c.workbench)
	viewer("GET /jobs/{id}", c.job)
	viewer("GET /keys", c.keys)
	viewer("GET /routes", c.routesPage)
	viewer("GET /relays", c.relays)
	viewer("GET /audit", c.audit)
	viewer("GET /settings", c.settings)
	viewer("POST /prefs", c.setPreferences)
	viewer("POST /logout", c.logout)
	viewer("POST /messages/{id}/payload", c.payload) // the handler checks Config.PayloadRole

	operator("POST /messages/{id}/{verb}", c.changeMessage)
	operator("POST /replay", c.startJob)
	operator("POST /jobs/{id}/{state}", c.changeJob)
	operator("POST /keys", c.changeKey)
	operator("POST /routes", c.changeRoute)
	operator("POST /trigger", c.trigger)
	admin("POST /relays", c.releaseLease)

	viewer("GET /api/tables", c.apiTables)
	viewer("GET /api/messages", c.apiMessages)
	viewer("GET /api/messages/{id}", c.apiMessage)
	viewer("GET /api/messages/{id}/attempts", c.apiAttempts)
	viewer("GET /api/messages/{id}/explain", c.apiExplain)
	viewer("GET /api/groups", c.apiGroups)
	viewer("GET /api/keys", c.apiKeys)
	viewer("GET /api/audit", c.apiAudit)
	viewer("GET /api/jobs", c.apiJobs)
	viewer("GET /api/jobs/{id}", c.apiJob)
	operator("POST /api/actions", c.apiAction)
	operator("POST /api/jobs/preview", c.apiPreviewJob)
	operator("POST /api/jobs", c.apiStartJob)
	operator("POST /api/jobs/{id}/state", c.apiChangeJob)
	operator("POST /api/outbox/trigger/process", c.apiTrigger)
	return mux
}
