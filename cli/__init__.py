"""The command `backedge`: one subcommand in each file or folder."""
