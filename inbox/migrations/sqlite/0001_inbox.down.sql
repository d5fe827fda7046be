DROP TABLE {{table}}
