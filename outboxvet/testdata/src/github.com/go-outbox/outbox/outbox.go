package outbox

type Message struct{ Topic string }
