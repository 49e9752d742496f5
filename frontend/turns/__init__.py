"""Turns: the frontend keeps what models answered, and restores what clients drop of it.

Clients send an agent's earlier answers back without their reasoning and with other white space.
`conversation` recognizes such an answer, `turn_store` keeps it, and `turn_keeper` puts the
reasoning into the next request, and the generated token ids into its prompt.
"""
