#!/usr/bin/env python3
"""Places orders and their events in one transaction.

    producer.py shop.db                          SQLite, Python's own sqlite3
    producer.py postgres://user@host/database    PostgreSQL, psycopg2

The outbox is the table shop_outbox, made by `outbox migrate up --table shop_outbox`.
"""

import contextlib
import json
import sqlite3
import sys
import uuid

ENQUEUE = """
    INSERT INTO shop_outbox (event_id, topic, msg_key, event_version, headers, payload)
    VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (event_id) DO NOTHING
"""


def connect(database):
    """Returns a connection and the mark its driver has for parameters."""
    if database.startswith(("postgres://", "postgresql://")):
        import psycopg2

        return psycopg2.connect(database), "%s"
    # isolation_level=None: transactions begin where this program says so.
    connection = sqlite3.connect(database, timeout=30, isolation_level=None)
    return connection, "?"


class Shop:
    def __init__(self, database):
        self.connection, self.mark = connect(database)
        with self.transaction():
            self.execute("CREATE TABLE IF NOT EXISTS orders (id varchar(40) PRIMARY KEY, total integer NOT NULL)")

    def execute(self, statement, *args):
        cursor = self.connection.cursor()
        cursor.execute(statement.replace("?", self.mark), args)

    @contextlib.contextmanager
    def transaction(self):
        if self.mark == "?":
            self.execute("BEGIN IMMEDIATE")  # the write lock first: no SQLITE_BUSY half way
        try:
            yield
        except BaseException:
            self.connection.rollback()
            raise
        self.connection.commit()

    def enqueue(self, topic, key, payload, event_id=None, version=1, headers=None):
        """Writes an event in the transaction that is open. Nothing is sent here: the relay
        sends it once the transaction is committed, and never if it is rolled back."""
        self.execute(
            ENQUEUE,
            str(event_id or uuid.uuid4()),  # lower case, with hyphens
            topic,
            key,
            version,
            json.dumps(headers) if headers else None,
            json.dumps(payload),
        )

    def place(self, order, total, event_id=None):
        self.execute("INSERT INTO orders VALUES (?, ?) ON CONFLICT (id) DO NOTHING", order, total)
        self.enqueue(
            "shop.order.placed.v1",
            key=order,
            payload={"order": order, "total": total},
            event_id=event_id,
            headers={"source": "python"},
        )


def main(database):
    shop = Shop(database)
    with shop.transaction():
        shop.place("order-1", 100)
    with shop.transaction():
        shop.place("order-2", 250)
        shop.enqueue("shop.order.paid.v1", key="order-2", payload={"order": "order-2"})

    # An id of your own makes a retry harmless: the second one writes nothing.
    request = uuid.uuid5(uuid.NAMESPACE_URL, "https://shop.example/requests/3")
    for _ in range(2):
        with shop.transaction():
            shop.place("order-3", 300, event_id=request)

    # Rolled back: neither the order nor the event exists.
    with contextlib.suppress(RuntimeError), shop.transaction():
        shop.place("order-4", 400)
        raise RuntimeError("out of stock")

    shop.connection.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
