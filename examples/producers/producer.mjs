#!/usr/bin/env node
// Places orders and their events in one transaction.
//
//     producer.mjs postgres://user@host/database    PostgreSQL, npm install pg
//     producer.mjs shop.db                          SQLite, Node's own node:sqlite (22.5 or later)
//
// The outbox is the table shop_outbox, made by `outbox migrate up --table shop_outbox`.

import { createHash, randomUUID } from 'node:crypto'
import { createRequire } from 'node:module'

const ENQUEUE = `
    INSERT INTO shop_outbox (event_id, topic, msg_key, event_version, headers, payload)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (event_id) DO NOTHING`

// connect returns what runs a statement, begins a transaction and closes the connection.
async function connect(database) {
  if (/^postgres(ql)?:/.test(database)) {
    const pg = createRequire(import.meta.url)('pg')
    const client = new pg.Client({ connectionString: database })
    await client.connect()
    return { run: (sql, args) => client.query(sql, args), begin: 'BEGIN', close: () => client.end() }
  }
  const { DatabaseSync } = await import('node:sqlite')
  const db = new DatabaseSync(database)
  db.exec('PRAGMA busy_timeout = 30000')
  // Numbered parameters in the order of their numbers.
  const run = (sql, args = []) => db.prepare(sql.replace(/\$(\d+)/g, '?$1')).run(...args)
  return { run, begin: 'BEGIN IMMEDIATE', close: () => db.close() }
}

class Shop {
  constructor(db) {
    this.db = db
  }

  // transaction commits what work did, or nothing of it.
  async transaction(work) {
    await this.db.run(this.db.begin)
    try {
      await work()
      await this.db.run('COMMIT')
    } catch (error) {
      await this.db.run('ROLLBACK')
      throw error
    }
  }

  // enqueue writes an event in the transaction that is open. Nothing is sent here: the
  // relay sends it once the transaction is committed, and never if it is rolled back.
  async enqueue(topic, key, payload, { eventId = randomUUID(), version = 1, headers } = {}) {
    await this.db.run(ENQUEUE, [
      eventId, // lower case, with hyphens
      topic,
      key,
      version,
      headers ? JSON.stringify(headers) : null,
      JSON.stringify(payload),
    ])
  }

  async place(order, total, eventId) {
    await this.db.run('INSERT INTO orders VALUES ($1, $2) ON CONFLICT (id) DO NOTHING', [order, total])
    await this.enqueue('shop.order.placed.v1', order, { order, total }, { eventId, headers: { source: 'node' } })
  }
}

// uuid5 derives the id of an event from an id of your own.
function uuid5(name) {
  const url = Buffer.from('6ba7b8119dad11d180b400c04fd430c8', 'hex')
  const h = createHash('sha1').update(url).update(name).digest().subarray(0, 16)
  h[6] = (h[6] & 0x0f) | 0x50
  h[8] = (h[8] & 0x3f) | 0x80
  return h.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

async function main(database) {
  const db = await connect(database)
  const shop = new Shop(db)
  await db.run('CREATE TABLE IF NOT EXISTS orders (id varchar(40) PRIMARY KEY, total integer NOT NULL)')

  await shop.transaction(() => shop.place('order-1', 100))
  await shop.transaction(async () => {
    await shop.place('order-2', 250)
    await shop.enqueue('shop.order.paid.v1', 'order-2', { order: 'order-2' })
  })

  // An id of your own makes a retry harmless: the second one writes nothing.
  const request = uuid5('https://shop.example/requests/3')
  for (let i = 0; i < 2; i++) {
    await shop.transaction(() => shop.place('order-3', 300, request))
  }

  // Rolled back: neither the order nor the event exists.
  await shop
    .transaction(async () => {
      await shop.place('order-4', 400)
      throw new RangeError('out of stock')
    })
    .catch((error) => {
      if (!(error instanceof RangeError)) throw error
    })

  await db.close()
}

if (process.argv.length !== 3) {
  console.error('usage: producer.mjs DATABASE')
  process.exit(2)
}
await main(process.argv[2])
