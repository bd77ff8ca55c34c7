"""Records in, words and pictures out: verdict, tables, drawings, page, plots."""
