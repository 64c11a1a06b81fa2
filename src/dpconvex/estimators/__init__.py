"""The scikit-learn face: public facts of a table, their encoding, and estimators. No mathematics of its own."""
