"""Steps of other programs that have a model say something of their texts, each in a file with the program's name."""
